package catalog

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// entryOf is what a wish asks of its model.
func entryOf(w *catalogv1.PutModelRequest) *catalogv1.ModelEntry {
	return &catalogv1.ModelEntry{
		Slug: w.GetSlug(), Name: w.GetName(), Category: w.GetCategory(), Kind: w.GetKind(), Tier: w.GetTier(),
		InputPrice: w.GetInputPrice(), OutputPrice: w.GetOutputPrice(), PayoutInputPrice: w.GetPayoutInputPrice(),
		PayoutOutputPrice: w.GetPayoutOutputPrice(), PayoutCachedInputPrice: w.GetPayoutCachedInputPrice(),
		ContextLength: w.GetContextLength(), MaxOutputTokens: w.GetMaxOutputTokens(), Capabilities: w.GetCapabilities(),
		SupportedParameters: w.GetSupportedParameters(), Inactive: w.GetInactive(), DeprecatedAt: w.GetDeprecatedAt(),
		MinVramGb: w.GetMinVramGb(), Successor: w.GetSuccessor(),
	}
}

// dearer asks that a model cost half as much again an hour from now.
func (b *bundle) dearer(id string) *catalogv1.ScheduleModelChangeRequest {
	w := wish(id)
	w.InputPrice = "1.5"
	return &catalogv1.ScheduleModelChangeRequest{ModelId: id, EffectiveFrom: timestamppb.New(b.clock.Now().Add(time.Hour)),
		Entry: entryOf(w)}
}

func (r *replica) schedule(t *testing.T, req *catalogv1.ScheduleModelChangeRequest) *catalogv1.ModelChange {
	t.Helper()
	ctx := metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))
	resp, err := r.admin.ScheduleModelChange(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetChange()
}

// priceChange is what the public reads of a price to come; nil for none.
func (r *replica) priceChange(t *testing.T) *catalogv1.PriceChange {
	t.Helper()
	resp, err := r.public.ListModels(t.Context(), &catalogv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetData().GetList()[0].GetPriceChange()
}

// onlyChange is the one change of test/plain.
func (r *replica) onlyChange(t *testing.T) *catalogv1.ModelChange {
	t.Helper()
	resp, err := r.admin.ListModelChanges(t.Context(), &catalogv1.ListModelChangesRequest{ModelId: "test/plain"})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetList()) != 1 {
		t.Fatalf("got %d changes, want 1", len(resp.GetList()))
	}
	return resp.GetList()[0]
}

func TestAScheduledPriceIsPublicAndThenInForceOnEveryReplica(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/plain"))
	other := b.start(t)
	here, there := b.watch(t), other.watch(t)
	c := b.schedule(t, b.dearer("test/plain"))
	switch {
	case c.GetState() != "scheduled":
		t.Errorf("state: got %q, want scheduled", c.GetState())
	case c.GetScheduledBy() != "alice":
		t.Errorf("by: got %q, want alice", c.GetScheduledBy())
	case c.GetEntry().GetSlug() != "test-plain":
		t.Errorf("the slug that was left out: got %q, want it filled in", c.GetEntry().GetSlug())
	case c.GetBase().GetInputPrice() != "1.00":
		t.Errorf("the price of the base: got %q, want 1.00", c.GetBase().GetInputPrice())
	}
	want := &catalogv1.PriceChange{EffectiveFrom: c.GetEffectiveFrom(), PricingUnit: "per_1m_tokens",
		InputPrice: 1.5, InputPriceStr: "1.50", OutputPrice: 3, OutputPriceStr: "3.00",
		PayoutInputPrice: 0.9, PayoutInputPriceStr: "0.90", PayoutOutputPrice: 2.7, PayoutOutputPriceStr: "2.70",
		PayoutCachedInputPriceStr: "0.00"}
	if coming := b.priceChange(t); !proto.Equal(coming, want) {
		t.Errorf("the public reads: got %v, want %v", coming, want)
	}
	b.clock.Advance(time.Hour)
	dearer := func(m *catalogv1.Model) bool { return m.GetPrice().GetRates().GetInputPicoUsdPerToken() == 1_500_000 }
	m := here.until(t, "test/plain", "the price is in force", dearer)
	there.until(t, "test/plain", "the price is in force there", dearer)
	if coming := b.priceChange(t); coming != nil {
		t.Errorf("once it is in force: got the price to come %v, want none", coming)
	}
	switch done := other.onlyChange(t); {
	case done.GetState() != "applied":
		t.Errorf("the change: got %q, want applied", done.GetState())
	case done.GetPriceVersionId() != m.GetPrice().GetPriceVersionId():
		t.Errorf("its price version: got %q, want %q", done.GetPriceVersionId(), m.GetPrice().GetPriceVersionId())
	case done.GetEndedBy() != "":
		t.Errorf("ended by: got %q, want nobody but the catalog", done.GetEndedBy())
	}
}

func TestACatalogThatStartsAppliesWhatWasDueBefore(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/plain"))
	b.schedule(t, b.dearer("test/plain"))
	b.stop()
	b.clock.Advance(25 * time.Hour)
	b.start(t).watch(t).until(t, "test/plain", "the price is in force",
		func(m *catalogv1.Model) bool { return m.GetPrice().GetRates().GetInputPicoUsdPerToken() == 1_500_000 })
}

func TestAChangeOfTheModelRefusesTheScheduledOneAndSaysWhy(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/plain"))
	b.schedule(t, b.dearer("test/plain"))
	renamed := wish("test/plain")
	renamed.Name = "Another name"
	if put := b.put(t, renamed); put.GetModel().GetPriceChange() != nil {
		t.Errorf("the answer: got the price to come %v, want none", put.GetModel().GetPriceChange())
	}
	if done := b.onlyChange(t); done.GetState() != "refused" {
		t.Errorf("the change: got %q, want refused", done.GetState())
	} else if !strings.HasSuffix(done.GetReason(), ": name") {
		t.Errorf("the reason: got %q, want it to end in the name", done.GetReason())
	}
	if coming := b.priceChange(t); coming != nil {
		t.Errorf("the public reads: got %v, want none", coming)
	}
	b.schedule(t, b.dearer("test/plain")) // of the model as it is now
}

func TestAScheduleThatCannotStandIsRefusedByField(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/first"))
	b.put(t, wish("test/plain"))
	for field, spoil := range map[string]func(*catalogv1.ScheduleModelChangeRequest){
		"effective_from": func(r *catalogv1.ScheduleModelChangeRequest) { r.EffectiveFrom = nil },
		"entry":          func(r *catalogv1.ScheduleModelChangeRequest) { r.Entry = nil },
		"slug":           func(r *catalogv1.ScheduleModelChangeRequest) { r.Entry.Slug = "test-first" },
		"input_price":    func(r *catalogv1.ScheduleModelChangeRequest) { r.Entry.InputPrice = "free" },
		"payout_input_price": func(r *catalogv1.ScheduleModelChangeRequest) {
			r.Entry.PayoutInputPrice = "1.6"
		},
		"kind": func(r *catalogv1.ScheduleModelChangeRequest) {
			r.Entry.Kind, r.Entry.Tier = "gateway", "premium"
		},
		"deprecated_at": func(r *catalogv1.ScheduleModelChangeRequest) {
			r.Entry.DeprecatedAt = timestamppb.New(b.clock.Now().Add(30 * 24 * time.Hour))
		},
	} {
		req := b.dearer("test/plain")
		spoil(req)
		_, err := b.admin.ScheduleModelChange(t.Context(), req)
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("a bad %s: got the error %v, want a fault", field, err)
		case f.Reason != fault.InvalidValue:
			t.Errorf("a bad %s: got %s, want %s", field, f.Reason, fault.InvalidValue)
		case f.Param != field:
			t.Errorf("a bad %s: got a fault of %q, want of it", field, f.Param)
		}
	}
	if _, err := b.admin.ScheduleModelChange(t.Context(), b.dearer("test/none")); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("of no model: got the error %v, want %s", err, fault.ModelNotFound)
	}
	if _, err := b.admin.CancelModelChange(t.Context(), &catalogv1.CancelModelChangeRequest{ModelId: "test/plain",
		ChangeId: "x"}); !fault.Is(err, fault.ChangeNotFound) {
		t.Errorf("cancel no change: got the error %v, want %s", err, fault.ChangeNotFound)
	}
	if n := b.count(t, "SELECT count(*) FROM model_change"); n != 0 {
		t.Errorf("changes: got %d, want 0", n)
	}
}
