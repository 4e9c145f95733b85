package events

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money/moneypb"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/price"
)

// Pauses between attempts to watch the catalog, and the most models it has.
const (
	watchPauseMin = 200 * time.Millisecond
	watchPauseMax = 10 * time.Second
	maxModels     = 10_000
)

// Catalog keeps the book of prices up to date.
type Catalog struct {
	Client catalogv1.CatalogServiceClient
	Book   *price.Book
	Log    *slog.Logger
}

// Run watches until ctx ends. While the catalog is away, the last prices go on
// applying.
func (c *Catalog) Run(ctx context.Context) {
	// Services start in any order: until the first snapshot, readiness tells
	// of a catalog that is away.
	level := slog.LevelDebug
	for failures := 0; ctx.Err() == nil; {
		got, err := c.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if failures++; got {
			failures, level = 1, slog.LevelWarn
		}
		wait := pause(failures)
		c.Log.Log(ctx, level, "catalog cannot be watched", "error", err, "pause", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// pause grows with the failures in a row and is spread over its upper half.
func pause(failures int) time.Duration {
	d := min(watchPauseMin<<min(failures-1, 10), watchPauseMax)
	return d/2 + rand.N(d/2) //nolint:gosec // spreads load, guards nothing
}

// watch follows one stream to its end and tells whether anything came.
func (c *Catalog) watch(ctx context.Context) (got bool, err error) {
	// The stream ends with the context, whatever made us leave.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Client.WatchModels(ctx, &catalogv1.WatchModelsRequest{})
	if err != nil {
		return false, fmt.Errorf("watch models: %w", err)
	}
	for {
		snapshot, err := stream.Recv()
		if err != nil {
			return got, fmt.Errorf("receive models: %w", err)
		}
		if n := len(snapshot.GetModels()); n > maxModels {
			return got, fmt.Errorf("the catalog sent %d models, more than %d", n, maxModels)
		}
		c.Book.Replace(c.models(ctx, snapshot.GetModels()))
		got = true
	}
}

// models are those in service that can be priced. One that cannot is left out,
// so that it is refused instead of being served for the wrong money.
func (c *Catalog) models(ctx context.Context, list []*catalogv1.Model) map[string]price.Model {
	models := make(map[string]price.Model, len(list))
	for _, m := range list {
		if !m.GetActive() {
			continue
		}
		priced, err := modelFromProto(m)
		if err != nil {
			c.Log.ErrorContext(ctx, "model cannot be priced", "model_id", m.GetModelId(), "error", err)
			continue
		}
		models[priced.ID] = priced
	}
	return models
}

func modelFromProto(m *catalogv1.Model) (price.Model, error) {
	out := price.Model{ID: m.GetModelId(), Tier: tierFromProto(m.GetTier()), Rates: moneypb.ToRates(m.GetPrice().GetRates())}
	switch m.GetCategory() {
	case catalogv1.Category_CATEGORY_LLM:
		out.Class = limit.LLM
	case catalogv1.Category_CATEGORY_MULTIMODAL:
		out.Class = limit.Multimodal
	case catalogv1.Category_CATEGORY_EMBEDDING:
		out.Class = limit.Embedding
	case catalogv1.Category_CATEGORY_IMAGE:
		out.Class = limit.Image
	case catalogv1.Category_CATEGORY_AUDIO:
		out.Class = limit.Audio
	default:
		return price.Model{}, fmt.Errorf("category %v has no limits", m.GetCategory())
	}
	if out.ID == "" || len(out.ID) > 255 {
		return price.Model{}, fmt.Errorf("id of %d bytes", len(out.ID))
	}
	var err error
	if out.Version, err = ids.ParsePriceVersion(m.GetPrice().GetPriceVersionId()); err != nil {
		return price.Model{}, fmt.Errorf("price version: %w", err)
	}
	if m.GetPrice().GetRates() == nil {
		return price.Model{}, fmt.Errorf("there are no rates")
	}
	if want := out.Class.Unit(); out.Rates.Unit != want {
		return price.Model{}, fmt.Errorf("priced %v, where its category is priced %v", out.Rates.Unit, want)
	}
	return out, out.Rates.Validate()
}

// tierFromProto takes a tier without a name for one that no plan covers.
func tierFromProto(t catalogv1.Tier) plan.Tier {
	switch t {
	case catalogv1.Tier_TIER_FREE:
		return plan.Free
	case catalogv1.Tier_TIER_STANDARD:
		return plan.Standard
	case catalogv1.Tier_TIER_PREMIUM:
		return plan.Premium
	case catalogv1.Tier_TIER_UNSPECIFIED:
	}
	return 0
}
