package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/effects"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/work"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// must returns a value, or ends the test for an error.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// bundle is an offer with a penalty, and what people see of it.
type bundle struct {
	*storetest.Env
	offer   probe.Offer
	verdict standing.Verdict
	mover   *work.Mover
	self    *Self
	admin   *Admin
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{Env: storetest.New(t)}
	b.AllowPenalties(t)
	b.offer = b.See(t, storetest.Provider(t))
	b.until(t, ladder.Confirm, "reference-1")
	out := b.until(t, ladder.Penalty, "reference-2")
	b.verdict = out.Verdicts[0]
	book := work.NewBook(b.Stores[0])
	if err := book.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mover = &work.Mover{Store: b.Stores[0], Limits: ladder.DemoThresholds(), Offers: offers.New(), Models: none{},
		Book: book, Log: slog.New(slog.DiscardHandler), Changed: func(ids.ProviderID) {},
		Observer: work.Observer{Probed: func(context.Context, probe.Plan, string, string) {},
			Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
	actions := &work.Decisions{Mover: b.mover}
	b.self = &Self{Store: b.Stores[0], Keeper: b.Keepers[0], Actions: actions, Gateway: "edge-gateway"}
	b.admin = &Admin{Store: b.Stores[0], Keeper: b.Keepers[0], Offers: offers.New(), Actions: actions}
	return b
}

// none is a catalog without models.
type none struct{}

func (none) Find(string) (work.Model, bool) { return work.Model{}, false }

// until probes the offer until it has a level.
func (b *bundle) until(t *testing.T, level ladder.Level, host string) standing.Outcome {
	t.Helper()
	for range 500 {
		b.Pass(t, 30*time.Minute)
		out := b.Probe(t, b.offer, true, host)
		if must(b.Stores[0].Standing(t.Context(), b.offer))(t).State.Level == level {
			return out
		}
	}
	t.Fatalf("the level never became %s", level)
	return standing.Outcome{}
}

func TestAProviderReadsWhatItAnsweredAndNoOtherProviderDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	req := &verifierv1.GetPenaltyEvidenceRequest{PenaltyId: b.verdict.ID.String(),
		ProviderId: b.offer.Provider.String()}
	var sides []string
	for {
		page := must(b.self.GetPenaltyEvidence(t.Context(), req))(t)
		for _, o := range page.GetList() {
			sides = append(sides, o.GetSide())
			if bytes.Contains(o.GetBody(), []byte("prompt_logprobs")) {
				t.Errorf("a body of %s holds scores of a reference, want the provider's own bytes alone", o.GetKind())
			}
		}
		if req.Cursor = page.GetNextCursor(); req.Cursor == "" {
			break
		}
	}
	v := must(b.Stores[0].Verdict(t.Context(), b.verdict.ID))(t)
	if got, want := len(sides), int(2*(v.Number-v.First+1)); got != want {
		t.Errorf("bodies: got %d, want %d", got, want)
	}
	if sides[0] != "question" {
		t.Errorf("the first body: got %q, want %q", sides[0], "question")
	}
	other := &verifierv1.GetPenaltyEvidenceRequest{PenaltyId: req.GetPenaltyId(),
		ProviderId: storetest.Provider(t).String()}
	if _, err := b.self.GetPenaltyEvidence(t.Context(), other); !fault.Is(err, PenaltyNotFound) {
		t.Errorf("another tenant: got the error %v, want the reason %v", err, PenaltyNotFound)
	}
	notice := must(b.Stores[0].Verdicts(t.Context(), store.VerdictFilter{}, probe.VerdictID{}, 10))(t)
	req.PenaltyId = notice[len(notice)-1].ID.String()
	if _, err := b.self.GetPenaltyEvidence(t.Context(), req); !fault.Is(err, PenaltyNotFound) {
		t.Errorf("a notice is no penalty: got the error %v, want the reason %v", err, PenaltyNotFound)
	}
}

func TestAProviderIsToldOfItsPenalty(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := must(b.self.GetStanding(t.Context(), &verifierv1.GetStandingRequest{
		ProviderId: b.offer.Provider.String()}))(t).GetList()
	if len(own) != 1 {
		t.Fatalf("models: got %d, want 1", len(own))
	}
	for what, c := range map[string][2]string{
		"standing": {own[0].GetStanding(), "penalty"}, "kind": {own[0].GetKind(), "greedy"},
		"penalty": {own[0].GetPenaltyId(), b.verdict.ID.String()},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: got %q, want %q", what, c[0], c[1])
		}
	}
}

// caller notes what is called of hub and settlement.
type caller struct {
	opened []peers.Penalty
	state  string
}

func (c *caller) Benchmark(context.Context, ids.ProviderID, bool, time.Time, int64, string) error {
	return nil
}

func (c *caller) Expel(context.Context, ids.ProviderID, probe.VerdictID, string) error { return nil }

func (c *caller) Reinstate(context.Context, ids.ProviderID, probe.VerdictID, string) error {
	return nil
}

func (c *caller) Open(_ context.Context, p peers.Penalty) (time.Time, error) {
	c.opened = append(c.opened, p)
	return time.Time{}, nil
}

func (c *caller) State(_ context.Context, p peers.Penalty) (string, error) {
	c.opened = append(c.opened, p)
	return c.state, nil
}

func TestAPenaltyGoesOutOnceAndItsReversalComesBack(t *testing.T) {
	t.Parallel()
	b, c, ctx := setup(t), &caller{state: "reversed"}, t.Context()
	worker := &effects.Worker{Replica: "one", Outbox: work.Outbox{Store: b.Stores[0]}, Hubs: c, Settlement: c,
		Log: slog.New(slog.DiscardHandler), Ended: func(context.Context, effects.Kind, string) {}}
	for range 2 {
		must(worker.Pass(ctx))(t)
	}
	if len(c.opened) != 1 {
		t.Fatalf("penalties opened: got %d, want 1", len(c.opened))
	}
	if got := c.opened[0].BasisPoints; got != 1000 {
		t.Errorf("share: got %d, want 1000", got)
	}
	penalties := &work.Penalties{Store: b.Stores[0], Mover: b.mover, Settlement: c, Log: slog.New(slog.DiscardHandler)}
	b.Pass(t, time.Hour)
	for range 2 { // what was missed is asked for, and asked again it changes nothing
		if err := penalties.Pass(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := c.opened[1], c.opened[0]; got != want {
		t.Errorf("the penalty that is asked for: got %+v, want what was opened: %+v", got, want)
	}
	st := must(b.Stores[0].Standing(ctx, b.offer))(t)
	if got := st.State.Level; got != ladder.Normal {
		t.Errorf("level after the reversal: got %s, want %s", got, ladder.Normal)
	}
	v := must(b.admin.ListVerdicts(ctx, &verifierv1.ListVerdictsRequest{ProviderId: b.offer.Provider.String(),
		PageSize: 1}))(t)
	if got, want := v.GetList()[0].GetTrigger(), string(ladder.Reverse); got != want {
		t.Errorf("the last verdict: got %q, want %q", got, want)
	}
	next := must(b.admin.ListVerdicts(ctx, &verifierv1.ListVerdictsRequest{ProviderId: b.offer.Provider.String(),
		PageSize: 1, Cursor: v.GetNextCursor()}))(t)
	if got := next.GetList()[0].GetVerdictId(); got != b.verdict.ID.String() {
		t.Errorf("the page behind it: got %s, want the penalty %s", got, b.verdict.ID)
	}
}

// The second penalty is 30% with removal, and needs an operator's word. The first word
// stays, whatever is said later.
func TestASecondPenaltyWaitsForAnOperatorWhoseFirstWordStays(t *testing.T) {
	t.Parallel()
	b, c, ctx := setup(t), &caller{}, t.Context()
	penalties := &work.Penalties{Store: b.Stores[0], Mover: b.mover, Settlement: c, Log: slog.New(slog.DiscardHandler)}
	if err := penalties.Changed(ctx, b.verdict.ID, "executed"); err != nil {
		t.Fatal(err)
	}
	b.until(t, ladder.Confirm, "reference-1")
	second := b.until(t, ladder.Penalty, "reference-2").Verdicts[0]
	if !second.NeedsOperator {
		t.Fatal("the second penalty needs an operator: got false, want true")
	}
	worker := &effects.Worker{Replica: "one", Outbox: work.Outbox{Store: b.Stores[0]}, Hubs: c, Settlement: c,
		Log: slog.New(slog.DiscardHandler), Ended: func(context.Context, effects.Kind, string) {}}
	must(worker.Pass(ctx))(t)
	if n := len(c.opened); n != 1 {
		t.Errorf("penalties opened while it waits: got %d, want the first alone", n)
	}
	for _, refuse := range []bool{false, false, true} {
		got := must(b.admin.ApproveVerdict(ctx, &verifierv1.ApproveVerdictRequest{VerdictId: second.ID.String(),
			Refuse: refuse}))(t)
		if held := got.GetHeld(); held != "" {
			t.Errorf("held: got %q, want nothing", held)
		}
	}
	for range 3 { // the expulsion follows the penalty
		b.Pass(t, time.Minute)
		must(worker.Pass(ctx))(t)
	}
	if n := len(c.opened); n != 2 {
		t.Fatalf("penalties opened after the word: got %d, want 2", n)
	}
	if got := c.opened[1].BasisPoints; got != 3000 {
		t.Errorf("share: got %d, want 3000", got)
	}
	if n := b.Count(t, `SELECT count(*) FROM event WHERE kind = 'operator'`); n != 1 {
		t.Errorf("words of operators in evidence: got %d, want 1", n)
	}
	if n := b.Count(t, `SELECT count(*) FROM operator_action WHERE action = 'approve_verdict' AND actor = 'operator'
		AND subject = $1`, second.ID.String()); n != 1 {
		t.Errorf("acts: got %d, want 1", n)
	}
	if _, err := b.admin.ApproveVerdict(ctx, &verifierv1.ApproveVerdictRequest{
		VerdictId: b.verdict.ID.String()}); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a verdict that waits for nobody: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
}

func TestAnOperatorVoidsObservationsOnce(t *testing.T) {
	t.Parallel()
	b, ctx := &bundle{Env: storetest.New(t)}, t.Context()
	b.offer = b.See(t, storetest.Provider(t))
	b.mover = &work.Mover{Store: b.Stores[0], Limits: ladder.DemoThresholds(), Offers: offers.New(), Models: none{},
		Book: work.NewBook(b.Stores[0]), Log: slog.New(slog.DiscardHandler), Changed: func(ids.ProviderID) {},
		Observer: work.Observer{Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
	admin := &Admin{Store: b.Stores[0], Keeper: b.Keepers[0], Actions: &work.Decisions{Mover: b.mover}}
	for range 3 {
		b.Pass(t, time.Hour)
		b.Probe(t, b.offer, true, "reference-1")
	}
	req := &verifierv1.VoidObservationsRequest{ProviderId: b.offer.Provider.String(), ModelId: b.offer.Model,
		Since: moment(storetest.Start), IdempotencyKey: "one"}
	for range 2 {
		got := must(admin.VoidObservations(ctx, req))(t)
		if m := got.GetOffering().GetEvidence(); m != 0 {
			t.Errorf("evidence: got %v, want 0", m)
		}
	}
	if n := b.Count(t, `SELECT count(*) FROM event WHERE kind = 'voided'`); n != 1 {
		t.Errorf("events: got %d, want 1", n)
	}
	if n := b.Count(t, `SELECT count(*) FROM operator_action WHERE action = 'void_observations' AND subject = $1
		AND detail ->> 'model_id' = $2`, b.offer.Provider.String(), b.offer.Model); n != 1 {
		t.Errorf("acts: got %d, want 1", n)
	}
	req.IdempotencyKey = ""
	if _, err := admin.VoidObservations(ctx, req); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("without a key: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestHiddenProbesAreListedByDayOnceTheDayIsOverForADay(t *testing.T) {
	t.Parallel()
	b := &bundle{Env: storetest.New(t)}
	b.offer = b.See(t, storetest.Provider(t))
	self := &Self{Store: b.Stores[0], Keeper: b.Keepers[0], Gateway: "edge-gateway"}
	for range 3 {
		b.Probe(t, b.offer, true, "reference-1")
	}
	req := &verifierv1.ListChallengesRequest{ProviderId: b.offer.Provider.String(), Hidden: true}
	b.Set(t, storetest.Start.Truncate(24*time.Hour).Add(48*time.Hour-time.Second))
	if got := must(self.ListChallenges(t.Context(), req))(t).GetList(); len(got) != 0 {
		t.Errorf("a second before: got %v, want nothing", got)
	}
	b.Pass(t, time.Second)
	got := must(self.ListChallenges(t.Context(), req))(t).GetList()
	if len(got) != 1 {
		t.Fatalf("then: got %d rows, want one for the day and kind", len(got))
	}
	if at := got[0].GetAt().AsTime(); !at.Equal(storetest.Start.Truncate(24 * time.Hour)) {
		t.Errorf("time: got %v, want the beginning of the day", at)
	}
	if r := got[0].GetResult(); r != "counted" {
		t.Errorf("result: got %q, want %q", r, "counted")
	}
}

// The database takes no NUL, so that a filter with one must be refused before.
func TestAFilterThatIsNoTextIsRefused(t *testing.T) {
	t.Parallel()
	admin := &Admin{} // its store is not asked
	for _, text := range []string{"\x00", "a\x00b", "\xff", "a\nb"} {
		_, err := admin.ListVerdicts(t.Context(), &verifierv1.ListVerdictsRequest{ModelId: text})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("verdicts of %q: got the error %v, want the reason %v", text, err, fault.InvalidValue)
		}
		_, err = admin.ListCalibrations(t.Context(), &verifierv1.ListCalibrationsRequest{ModelId: text})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("calibrations of %q: got the error %v, want the reason %v", text, err, fault.InvalidValue)
		}
	}
}
