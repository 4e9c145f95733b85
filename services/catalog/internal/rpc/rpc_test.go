package rpc

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/guarantee"
	"svc.internal/services/catalog/internal/price"
	"svc.internal/services/catalog/internal/snapshot"
	"svc.internal/services/catalog/internal/weights"
)

func model(id string) entry.Model {
	return entry.Model{
		Draft: entry.Draft{ID: id, Slug: "s", Name: "N", Category: entry.LLM, Kind: entry.Open, Tier: entry.Free,
			Active:        true,
			ContextTokens: 8192, MaxOutputTokens: 1024, Capabilities: []string{"chat"}},
		CreatedAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Price: price.Version{ID: ids.PriceVersionID{1}, ValidFrom: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
			Rates: money.Rates{Input: 37_500, Output: 150_000, PayoutInput: 33_750, PayoutOutput: 135_000,
				PayoutCachedInput: 3_375}},
	}
}

// publicJSON is a model as the gateway writes it.
func publicJSON(t *testing.T, m snapshot.Model) map[string]any {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(publicModel(m))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestAPublicModelHasThePublishedFields(t *testing.T) {
	g := guarantee.Of(guarantee.Supply{Online: 2, Reporting: 1, MinReported: 4096, MaxReported: 4096,
		Quantizations: []string{"q8"}}, 8192)
	got := publicJSON(t, snapshot.Model{Model: model("a/b"), Supply: g})
	want := map[string]any{
		"id": "a/b", "slug": "s", "name": "N", "category": "llm", "kind": "open", "active": true, "tier": "free",
		"pricing_unit": "per_1m_tokens", "currency": "USD",
		"input_price": 0.0375, "output_price": 0.15, "payout_input_price": 0.03375, "payout_output_price": 0.135,
		"input_price_str": "0.0375", "output_price_str": "0.15", "payout_input_price_str": "0.03375",
		"payout_output_price_str": "0.135", "payout_cached_input_price": 0.003375,
		"payout_cached_input_price_str": "0.003375",
		"context_length":                8192.0, "max_output_tokens": 1024.0, "online_providers": 2.0,
		"guaranteed_context_length": 4096.0, "guaranteed_context_basis": "partial", "max_reported_context_length": 4096.0,
		"plan_coverage": "undrawn",
		"min_vram_gb":   0.0, "successor": "", "capabilities": []any{"chat"}, "supported_parameters": []any{},
		"quantizations": []any{"q8"},
		"created_at":    "2026-11-21T12:00:00Z", "deprecated_at": nil, "price_change": nil,
	}
	if len(got) != len(want) {
		t.Errorf("got %d fields, want %d", len(got), len(want))
	}
	for name, value := range want {
		a, _ := json.Marshal(got[name])
		b, _ := json.Marshal(value)
		if _, there := got[name]; !there {
			t.Errorf("%s: got[name]: got none, want one", name)
		} else if string(a) != string(b) {
			t.Errorf("%s: a: got %q, want %q", name, string(a), string(b))
		}
	}
}

func TestPricesAreToldInTheModelsUnit(t *testing.T) {
	for _, c := range []struct {
		rates         money.Rates
		unit, in, out string
		number        float64
	}{
		{money.Rates{Input: 150_000, Output: 600_000}, "per_1m_tokens", "0.15", "0.60", 0.6},
		{money.Rates{Unit: money.Image, Output: 40_000_000_000}, "per_image", "0.00", "0.04", 0.04},
		{money.Rates{Unit: money.AudioMinute, Input: 6_000_000_001_000}, "per_minute", "6.000000001", "0.00", 0},
	} {
		m := snapshot.Model{Model: model("m")}
		m.Price.Rates = c.rates
		got := publicModel(m)
		switch {
		case got.GetPricingUnit() != c.unit:
			t.Errorf("%+v is told: got.GetPricingUnit(): got %q, want %q", c.rates, got.GetPricingUnit(), c.unit)
		case got.GetInputPriceStr() != c.in:
			t.Errorf("%+v is told: got.GetInputPriceStr(): got %q, want %q", c.rates, got.GetInputPriceStr(), c.in)
		case got.GetOutputPriceStr() != c.out:
			t.Errorf("%+v is told: got.GetOutputPriceStr(): got %q, want %q", c.rates, got.GetOutputPriceStr(), c.out)
		case got.GetOutputPrice() != c.number:
			t.Errorf("%+v is told: got.GetOutputPrice(): got %v, want %v", c.rates, got.GetOutputPrice(), c.number)
		}
		offer := publicOffering(&routerv1.Offering{}, m)
		switch {
		case offer.GetInputPriceStr() != c.in:
			t.Errorf("%+v is offered: offer.GetInputPriceStr(): got %q, want %q", c.rates, offer.GetInputPriceStr(), c.in)
		case offer.GetOutputPriceStr() != c.out:
			t.Errorf("%+v is offered: offer.GetOutputPriceStr(): got %q, want %q", c.rates, offer.GetOutputPriceStr(), c.out)
		case offer.GetOutputPrice() != c.number:
			t.Errorf("%+v is offered: offer.GetOutputPrice(): got %v, want %v", c.rates, offer.GetOutputPrice(), c.number)
		}
	}
}

// TestWhatIsNotKnownHasNoNumber leaves open whether JSON says null or leaves
// the field out, which is the gateway's to decide.
func TestWhatIsNotKnownHasNoNumber(t *testing.T) {
	for name, c := range map[string]struct {
		supply     guarantee.Supply
		guaranteed any
		reported   any
		basis      string
	}{
		"nobody online":  {guarantee.Supply{}, nil, nil, "no_online_providers"},
		"all are silent": {guarantee.Supply{Online: 1}, 8192.0, nil, "unknown"},
		"a made-up window": {guarantee.Supply{Online: 1, Reporting: 1, MinReported: math.MaxInt64,
			MaxReported: math.MaxInt64},
			float64(math.MaxInt32), float64(math.MaxInt32), "reported"},
	} {
		got := publicJSON(t, snapshot.Model{Model: model("m"), Supply: guarantee.Of(c.supply, 8192)})
		switch {
		case got["guaranteed_context_length"] != c.guaranteed:
			t.Errorf(`%s: got["guaranteed_context_length"]: got %v, want %v`, name, got["guaranteed_context_length"],
				c.guaranteed)
		case got["max_reported_context_length"] != c.reported:
			t.Errorf(`%s: got["max_reported_context_length"]: got %v, want %v`, name, got["max_reported_context_length"],
				c.reported)
		case got["guaranteed_context_basis"] != c.basis:
			t.Errorf(`%s: got["guaranteed_context_basis"]: got %v, want %v`, name, got["guaranteed_context_basis"], c.basis)
		}
	}
}

func TestEveryNameHasItsNumber(t *testing.T) {
	for _, c := range []entry.Category{entry.LLM, entry.Multimodal, entry.Embedding, entry.Image, entry.Audio} {
		if got := categoryToProto(c); got.String() != "CATEGORY_"+strings.ToUpper(string(c)) {
			t.Errorf("%s: got %q, want %q", c, got.String(), "CATEGORY_"+strings.ToUpper(string(c)))
		}
	}
	for _, k := range []entry.Kind{entry.Open, entry.Gateway} {
		if got := kindToProto(k); got.String() != "KIND_"+strings.ToUpper(string(k)) {
			t.Errorf("%s: got %q, want %q", k, got.String(), "KIND_"+strings.ToUpper(string(k)))
		}
	}
	for _, tier := range []entry.Tier{entry.Free, entry.Standard, entry.Premium} {
		if got := tierToProto(tier); got.String() != "TIER_"+strings.ToUpper(string(tier)) {
			t.Errorf("%s: got %q, want %q", tier, got.String(), "TIER_"+strings.ToUpper(string(tier)))
		}
	}
	for _, b := range []guarantee.Basis{guarantee.NoOnlineProviders, guarantee.Reported, guarantee.Partial,
		guarantee.Unknown} {
		if got := basisToProto(b); got.String() != "GUARANTEE_BASIS_"+strings.ToUpper(b.String()) {
			t.Errorf("%v: got %q, want %q", b, got.String(), "GUARANTEE_BASIS_"+strings.ToUpper(b.String()))
		}
	}
}

// TestTheFullestCatalogFitsOneMessage takes as many models and as much text as
// the store allows, with the most that a supply adds.
func TestTheFullestCatalogFitsOneMessage(t *testing.T) {
	const textBytes = 6 << 20
	s := &snapshot.Snapshot{Revision: math.MaxUint64}
	supply := guarantee.Supply{Online: math.MaxInt32, Reporting: math.MaxInt32, MinReported: math.MaxInt64,
		MaxReported: math.MaxInt64}
	for i := range 8 {
		supply.Quantizations = append(supply.Quantizations, strings.Repeat(strconv.Itoa(i), 16))
	}
	for i := range entry.MaxModels {
		m := model(strconv.Itoa(i))
		m.ContextTokens, m.MaxOutputTokens, m.DeprecatedAt = math.MaxInt64, math.MaxInt64, m.CreatedAt.Add(math.MaxInt32)
		m.Price.Rates = money.Rates{Unit: money.AudioMinute, Input: math.MaxInt64, Output: math.MaxInt64,
			PayoutInput: math.MaxInt64, PayoutOutput: math.MaxInt64}
		m.Name = strings.Repeat("x", textBytes/entry.MaxModels)
		s.Models = append(s.Models, snapshot.Model{Model: m, Supply: guarantee.Of(supply, 1)})
	}
	if n := proto.Size(snapshotToProto(s)); n > serve.MaxMessageBytes {
		t.Errorf("a full catalog is a message: got %d, want at most %d", n, serve.MaxMessageBytes)
	}
}

// store has one revision after another, each of one model.
type store struct{ revision int64 }

func (s *store) Load(context.Context, int64) (int64, []entry.Model, bool, error) {
	s.revision++
	return s.revision, []entry.Model{model(strconv.FormatInt(s.revision, 10))}, true, nil
}

func (s *store) LoadWeights(context.Context, int64) (int64, map[string]weights.Set, bool, error) {
	return 0, nil, false, nil
}

// stream is a watcher that takes a message only when the test does.
type stream struct {
	grpc.ServerStreamingServer[catalogv1.WatchModelsResponse]
	ctx  context.Context
	sent chan *catalogv1.WatchModelsResponse
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Send(m *catalogv1.WatchModelsResponse) error {
	select {
	case s.sent <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func TestASlowWatcherSkipsWhatCameAndWent(t *testing.T) {
	st := &store{}
	keeper := snapshot.NewKeeper(snapshot.Config{},
		snapshot.Deps{Entries: st, Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	refresh := func() {
		if err := keeper.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	refresh()
	watchers := int64(0)
	c := NewCatalog(keeper, func(delta int64) { watchers += delta })
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	w := &stream{ctx: ctx, sent: make(chan *catalogv1.WatchModelsResponse)}
	ended := make(chan error, 1)
	go func() { ended <- c.WatchModels(nil, w) }()
	if first := <-w.sent; first.GetRevision() != 1 {
		t.Fatalf("the first message has revision: got %d, want 1", first.GetRevision())
	}
	for range 100 {
		refresh()
	}
	// At most the message that was being sent comes before the newest.
	next := <-w.sent
	if next.GetRevision() != 101 {
		next = <-w.sent
	}
	if next.GetRevision() != 101 {
		t.Errorf("after 100 changes the watcher is at revision: got %d, want 101", next.GetRevision())
	} else if next.GetModels()[0].GetModelId() != "101" {
		t.Errorf(`next.GetModels()[0].GetModelId(): got %q, want "101"`, next.GetModels()[0].GetModelId())
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the watch ended without a reason")
	}
	if watchers != 0 {
		t.Errorf("watchers counted after the last has gone: got %d, want 0", watchers)
	}
}
