package peers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"svc.internal/pkg/catalogwatch"
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/verifier/internal/flow"
)

const (
	// hashesEvery is how old the hashes of files may be. Counts of providers change the
	// catalog every second; files change seldom.
	hashesEvery   = 30 * time.Second
	hashesTimeout = 10 * time.Second
	// maxFiles bounds the files of a model, as the catalog does.
	maxFiles = 1_000
	// maxFileBytes bounds a file, as package fingerprint does.
	maxFileBytes = 1 << 44
)

var errFiles = errors.New("the catalog names files that cannot be")

// Model is what the verifier needs of a model of the catalog.
type Model struct {
	ID         string
	Active     bool
	Embeddings bool
	// Window and MaxOutput are in tokens.
	Window, MaxOutput int64
	Capabilities      []string
	Rates             money.Rates
	// Files is the composite hash of the weights; zero where the catalog knows none.
	Files [32]byte
}

// Catalog keeps the models. It implements flow.Files.
type Catalog struct {
	client catalogv1.CatalogServiceClient
	public catalogv1.PublicCatalogServiceClient
	log    *slog.Logger
	now    func() time.Time
	models atomic.Pointer[map[string]Model]
	// hashes are of Run's goroutine.
	hashes   map[string][32]byte
	hashedAt time.Time
}

// NewCatalog returns a view that knows nothing until Run is called.
func NewCatalog(
	client catalogv1.CatalogServiceClient, public catalogv1.PublicCatalogServiceClient, log *slog.Logger,
	now func() time.Time,
) *Catalog {
	return &Catalog{client: client, public: public, log: log, now: now}
}

// Known reports whether the catalog has been heard at all.
func (c *Catalog) Known() bool { return c.models.Load() != nil }

// Model returns a model, and reports whether the catalog has it.
func (c *Catalog) Model(id string) (Model, bool) {
	all := c.models.Load()
	if all == nil {
		return Model{}, false
	}
	m, ok := (*all)[id]
	return m, ok
}

// IDs returns the ids of all models, in order.
func (c *Catalog) IDs() []string {
	all := c.models.Load()
	if all == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(*all))
}

// Run watches the catalog until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	catalogwatch.Run(ctx, c.client, c.log, func(ctx context.Context, models []*catalogv1.Model) {
		if now := c.now(); c.hashes == nil || now.Sub(c.hashedAt) >= hashesEvery {
			c.hashedAt = now
			if hashes, err := c.ask(ctx); err != nil {
				c.log.WarnContext(ctx, "the hashes of models' files cannot be read; the last ones stay", "error", err)
			} else {
				c.hashes = hashes
			}
		}
		all := make(map[string]Model, len(models))
		for _, m := range models {
			all[m.GetModelId()] = c.modelFromProto(m)
		}
		c.models.Store(&all)
	})
}

// ask returns the composite hashes of all models that have one.
func (c *Catalog) ask(ctx context.Context) (map[string][32]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hashesTimeout)
	defer cancel()
	resp, err := c.public.ListCatalog(ctx, &catalogv1.ListCatalogRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the catalog: %w", err)
	}
	hashes := map[string][32]byte{}
	for _, m := range resp.GetData().GetModels() {
		raw, err := hex.DecodeString(m.GetCompositeHash())
		if err == nil && len(raw) == 32 {
			hashes[m.GetModelId()] = [32]byte(raw)
		}
	}
	return hashes, nil
}

func (c *Catalog) modelFromProto(m *catalogv1.Model) Model {
	return Model{
		ID: m.GetModelId(), Active: m.GetActive(), Embeddings: m.GetCategory() == catalogv1.Category_CATEGORY_EMBEDDING,
		Window: m.GetContextLength(), MaxOutput: m.GetMaxOutputTokens(), Capabilities: m.GetCapabilities(),
		Rates: moneypb.ToRates(m.GetPrice().GetRates()), Files: c.hashes[m.GetModelId()],
	}
}

// Files names the files of a model's weights.
func (c *Catalog) Files(ctx context.Context, model string) ([]flow.File, error) {
	resp, err := c.public.ListModelFiles(ctx, &catalogv1.ListModelFilesRequest{ModelId: model})
	if err != nil {
		return nil, fmt.Errorf("list the files of a model: %w", err)
	}
	listed := resp.GetData().GetFiles()
	if len(listed) > maxFiles {
		return nil, errFiles
	}
	files := make([]flow.File, len(listed))
	for i, f := range listed {
		size := f.GetSizeBytes()
		if !(size >= 0 && size <= maxFileBytes) || size != float64(int64(size)) {
			return nil, errFiles
		}
		files[i] = flow.File{Name: f.GetFilename(), Bytes: int64(size)}
	}
	return files, nil
}
