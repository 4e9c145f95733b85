package peers_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/probe"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// catalog sends one snapshot and then nothing.
type catalog struct {
	catalogv1.CatalogServiceClient
	models []*catalogv1.Model
	sent   chan struct{}
}

func (c catalog) WatchModels(
	ctx context.Context, _ *catalogv1.WatchModelsRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[catalogv1.WatchModelsResponse], error) {
	return &snapshots{ctx: ctx, catalog: c}, nil
}

type snapshots struct {
	grpc.ServerStreamingClient[catalogv1.WatchModelsResponse]
	ctx     context.Context
	catalog catalog
	n       int
}

func (s *snapshots) Recv() (*catalogv1.WatchModelsResponse, error) {
	if s.n++; s.n == 1 {
		return &catalogv1.WatchModelsResponse{Models: s.catalog.models}, nil
	}
	close(s.catalog.sent) // the first was kept
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

// public names files and hashes.
type public struct {
	catalogv1.PublicCatalogServiceClient
	files []*catalogv1.ModelFile
	err   error
}

func (p public) ListCatalog(
	context.Context, *catalogv1.ListCatalogRequest, ...grpc.CallOption,
) (*catalogv1.ListCatalogResponse, error) {
	return &catalogv1.ListCatalogResponse{Data: &catalogv1.ListCatalogData{Models: []*catalogv1.CatalogModel{
		{ModelId: "a", CompositeHash: strings.Repeat("0a", 32)}, {ModelId: "b", CompositeHash: "no hash"},
	}}}, p.err
}

func (p public) ListModelFiles(
	context.Context, *catalogv1.ListModelFilesRequest, ...grpc.CallOption,
) (*catalogv1.ListModelFilesResponse, error) {
	return &catalogv1.ListModelFilesResponse{Data: &catalogv1.ModelFiles{Files: p.files}}, p.err
}

func TestTheCatalogIsKept(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"whole": nil, "without hashes": errors.New("away")} {
		watched := catalog{sent: make(chan struct{}), models: []*catalogv1.Model{
			{
				ModelId: "a", Active: true, ContextLength: 4096, MaxOutputTokens: 512, Capabilities: []string{"chat"},
				Price: &catalogv1.PriceVersion{Rates: &moneyv1.Rates{InputPicoUsdPerToken: 7}},
			},
			{ModelId: "b", Category: catalogv1.Category_CATEGORY_EMBEDDING},
		}}
		c := peers.NewCatalog(watched, public{err: err}, slog.New(slog.DiscardHandler), func() time.Time { return start })
		if c.Known() {
			t.Errorf("%s: known before it was heard: got true, want false", name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx)
		}()
		<-watched.sent
		cancel()
		<-done
		a, _ := c.Model("a")
		if got := a.Rates.Input; got != 7 {
			t.Errorf("%s: rate: got %d, want 7", name, got)
		}
		if got := a.Files[0] == 0x0a; got != (err == nil) {
			t.Errorf("%s: the hash of files: got %x", name, a.Files)
		}
		b, ok := c.Model("b")
		if !ok {
			t.Errorf("%s: the model b: got none, want one", name)
		}
		if !b.Embeddings {
			t.Errorf("%s: embeddings: got false, want true", name)
		}
		if b.Files != [32]byte{} {
			t.Errorf("%s: a hash that is none: got %x, want zero", name, b.Files)
		}
	}
}

func TestFilesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	list := func(sizes ...float64) error {
		var files []*catalogv1.ModelFile
		for _, s := range sizes {
			files = append(files, &catalogv1.ModelFile{Filename: "f", SizeBytes: s})
		}
		c := peers.NewCatalog(nil, public{files: files}, nil, nil)
		got, err := c.Files(t.Context(), "a")
		if err == nil && len(got) != len(sizes) {
			t.Errorf("files: got %d, want %d", len(got), len(sizes))
		}
		return err
	}
	if err := list(0, 5, 1<<44); err != nil {
		t.Errorf("files: got %v, want them", err)
	}
	for _, bad := range []float64{-1, 1.5, 1<<44 + 1} {
		if err := list(bad); err == nil {
			t.Errorf("a file of %v bytes: got no error, want one", bad)
		}
	}
	if err := list(make([]float64, 1_001)...); err == nil {
		t.Error("1,001 files: got no error, want one")
	}
}

// billing answers with what it is asked.
type billing struct {
	billingv1.HouseAccountServiceClient
	issued *billingv1.IssueHouseKeyRequest
	key    string
}

func (b *billing) OpenHouseAccount(
	context.Context, *billingv1.OpenHouseAccountRequest, ...grpc.CallOption,
) (*billingv1.OpenHouseAccountResponse, error) {
	return &billingv1.OpenHouseAccountResponse{AccountId: ids.AccountID{1}.String()}, nil
}

func (b *billing) IssueHouseKey(
	_ context.Context, m *billingv1.IssueHouseKeyRequest, _ ...grpc.CallOption,
) (*billingv1.IssueHouseKeyResponse, error) {
	b.issued = m
	return &billingv1.IssueHouseKeyResponse{KeyId: b.key, ApiKey: "sk-secret"}, nil
}

func TestKeysAreIssuedThroughTheLedger(t *testing.T) {
	t.Parallel()
	client := &billing{key: ids.KeyID{2}.String()}
	l := peers.Ledger{Client: client}
	account, err := l.Open(t.Context(), "n", "k")
	if err != nil {
		t.Fatal(err)
	}
	key, err := l.Issue(t.Context(), account, start)
	if err != nil {
		t.Fatal(err)
	}
	if got := client.issued.GetExpiresAt().AsTime(); !got.Equal(start) {
		t.Errorf("expires: got %v, want %v", got, start)
	}
	if got := key.Text.Reveal(); got != "sk-secret" {
		t.Errorf("the key: got %q, want %q", got, "sk-secret")
	}
	client.key = "no id"
	if _, err = l.Issue(t.Context(), account, start); err == nil {
		t.Fatal("a malformed id: got no error, want one")
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a malformed id: got the error %v, want one without the key", err)
	}
}

// deciders keep what they were told.
type deciders struct {
	hubv1.VerdictServiceClient
	settlementv1.PenaltyServiceClient
	benchmark *hubv1.ReportBenchmarkRequest
	penalty   *settlementv1.OpenPenaltyRequest
}

func (d *deciders) ReportBenchmark(
	_ context.Context, m *hubv1.ReportBenchmarkRequest, _ ...grpc.CallOption,
) (*hubv1.ReportBenchmarkResponse, error) {
	d.benchmark = m
	return &hubv1.ReportBenchmarkResponse{}, nil
}

func (d *deciders) OpenPenalty(
	_ context.Context, m *settlementv1.OpenPenaltyRequest, _ ...grpc.CallOption,
) (*settlementv1.OpenPenaltyResponse, error) {
	d.penalty = m
	return &settlementv1.OpenPenaltyResponse{}, nil
}

func TestVerdictsAreToldWhole(t *testing.T) {
	t.Parallel()
	d := &deciders{}
	v := peers.Verdicts{Client: d}
	if err := v.Benchmark(t.Context(), ids.ProviderID{1}, false, start, 4, "r"); err != nil {
		t.Fatal(err)
	}
	if d.benchmark.GetPassedAt() != nil {
		t.Error("a failed benchmark: got a time at which it was passed")
	}
	if err := v.Benchmark(t.Context(), ids.ProviderID{1}, true, start, 5, "r"); err != nil {
		t.Fatal(err)
	}
	if got := d.benchmark.GetPassedAt().AsTime(); !got.Equal(start) {
		t.Errorf("passed at: got %v, want %v", got, start)
	}
	_, err := peers.Penalties{Client: d}.Open(t.Context(), peers.Penalty{
		Verdict: probe.VerdictID{3}, Offer: probe.Offer{Provider: ids.ProviderID{1}, Model: "m"}, Kind: "misrepresentation",
		BasisPoints: 1_000, EvidenceHash: [32]byte{9},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.penalty.GetPenaltyId(), (probe.VerdictID{3}).String(); got != want {
		t.Errorf("the penalty's id: got %s, want %s", got, want)
	}
	if got, want := [32]byte(d.penalty.GetEvidenceHash()), ([32]byte{9}); got != want {
		t.Errorf("the hash of evidence: got %x, want %x", got, want)
	}
}
