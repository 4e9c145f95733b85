package work

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/traffic"
)

// away is a provider that no question reaches.
type away struct{ asked int }

func (a *away) Run(context.Context, probe.Plan) (judge.Record, error) {
	a.asked++
	return judge.Record{}, &flow.GiveBack{Reason: flow.PlatformDown}
}

func (a *away) RunOn(ctx context.Context, p probe.Plan, _ string) (judge.Record, error) {
	return a.Run(ctx, p)
}

// oneModel is a catalog with one model.
type oneModel struct{}

func (oneModel) Find(string) (Model, bool) { return Model{Active: true, Window: 1024}, true }

// spoilt is an offer whose benchmark asks in vain.
type spoilt struct {
	*storetest.Env
	t          *testing.T
	offer      probe.Offer
	at         *clock.Manual
	benchmarks *Benchmarks
}

func newSpoilt(t *testing.T) *spoilt {
	t.Helper()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Pass(t, referenceDue) // no reference will connect
	view := offers.New()
	view.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 1, Sessions: []offers.Session{{
		Provider: o.Provider, Node: "n", Epoch: 1, Models: []offers.Model{{ID: o.Model, Healthy: true, Window: 1024,
			Class: quant.Bits16, Capacity: 1}}}}}, time.Now())
	log, at := slog.New(slog.DiscardHandler), clock.NewManual(storetest.Start.Add(referenceDue))
	m := &Mover{Store: e.Stores[0], Limits: ladder.DemoThresholds(), Offers: view, Models: oneModel{},
		Book: NewBook(e.Stores[0]), Log: log, Changed: func(ids.ProviderID) {},
		Observer: Observer{Probed: func(context.Context, probe.Plan, string, string) {},
			Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
	if _, err := m.Move(t.Context(), o, "first", standing.Event{Ticked: &standing.Tick{}}); err != nil {
		t.Fatal(err)
	}
	return &spoilt{Env: e, t: t, offer: o, at: at, benchmarks: &Benchmarks{Store: e.Stores[0], Runner: &away{}, Mover: m,
		Offers: view, Traffic: traffic.New(), Clock: at, Log: log, Replica: "one", Parallel: 1, Ratios: &Ratios{},
		Quick: true}}
}

// drive begins what is wanted and carries it on for some minutes.
func (s *spoilt) drive() {
	s.t.Helper()
	ctx := s.t.Context()
	if err := s.benchmarks.Begin(ctx); err != nil {
		s.t.Fatal(err)
	}
	for range 10 {
		due, err := s.Stores[0].DueRuns(ctx, 10)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range due {
			if err := s.benchmarks.carryOn(ctx, row); err != nil {
				s.t.Fatal(err)
			}
		}
		s.pass(retryPause)
	}
}

// pass moves both clocks on.
func (s *spoilt) pass(by time.Duration) {
	s.Pass(s.t, by)
	s.at.Advance(by)
}

// runs are the offer's runs, of which there must be so many.
func (s *spoilt) runs(want int) []store.Run {
	s.t.Helper()
	list, err := s.Stores[0].Runs(s.t.Context(), s.offer.Provider, s.offer.Model, probe.RunID{}, 10)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(list) != want {
		s.t.Fatalf("runs: got %d, want %d", len(list), want)
	}
	return list
}

// A benchmark whose questions never reach the provider is void: it counts for nothing, and
// is repeated after an hour.
func TestABenchmarkThatThePlatformSpoiltIsVoidAndRepeated(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	s.benchmarks.Quick = false
	s.drive()
	if got := s.runs(1)[0].State; got != store.RunVoid {
		t.Errorf("state: got %s, want %s", got, store.RunVoid)
	}
	st, err := s.Stores[0].Standing(t.Context(), s.offer)
	if err != nil {
		t.Fatal(err)
	}
	if got := st.State.Run; got != ladder.Unproven {
		t.Errorf("the offer is %s, want %s: a void run counts for nothing", got, ladder.Unproven)
	}
	s.drive()
	s.runs(1) // within the hour
	s.pass(ladder.AskPause)
	s.drive()
	if got := s.runs(2)[0].Basis; got != store.Again {
		t.Errorf("basis: got %s, want %s", got, store.Again)
	}
}

// A person waits for the first benchmark of a demo.
func TestAQuickBenchmarkThatIsVoidIsRepeatedWithinTheMinute(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	s.drive()
	s.runs(1)
	s.pass(time.Minute)
	s.drive()
	if got := s.runs(2)[0].Basis; got != store.Again {
		t.Errorf("basis: got %s, want %s", got, store.Again)
	}
}

// slow is a provider that a question does not reach before many leases are over.
type slow struct {
	away
	*spoilt
}

func (s *slow) Run(ctx context.Context, p probe.Plan) (judge.Record, error) {
	for range 3 {
		s.pass(runLease - time.Second)
		for s.ownedUntil().Before(s.at.Now().Add(runLease / 2)) {
			if err := clock.Sleep(ctx, time.Millisecond); err != nil {
				s.t.Error("the lease is not renewed")
				return judge.Record{}, err
			}
		}
	}
	return s.away.Run(ctx, p)
}

// ownedUntil is when another replica may take the offer's run.
func (s *spoilt) ownedUntil() time.Time { return s.runs(1)[0].NextAt }

func TestARunIsItsReplicasForAsLongAsItAsksAndNotMuchLonger(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	s.benchmarks.Runner, s.benchmarks.Haste = &slow{spoilt: s}, 100
	if err := s.benchmarks.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	due, err := s.Stores[0].DueRuns(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.benchmarks.carryOn(ctx, due[0]); err != nil {
		t.Fatal(err)
	}
	if wait := s.ownedUntil().Sub(s.at.Now()); wait > runLease {
		t.Errorf("another replica waits for %v, want at most %v", wait, runLease)
	}
}

// A row that was altered on disk is an offer's own trouble.
func TestAStandingThatCannotBeReadKeepsNoOtherOfferWaiting(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	s.Exec(t, `ALTER TABLE verifier.standing DISABLE TRIGGER USER`)
	s.Exec(t, `UPDATE verifier.standing SET state = set_byte(state, 0, 0)`)
	s.Exec(t, `ALTER TABLE verifier.standing ENABLE TRIGGER USER`)
	other := s.See(t, storetest.Provider(t)) // behind the first in the order of providers
	s.pass(referenceDue)
	s.benchmarks.Offers.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 2,
		Sessions: []offers.Session{{Provider: other.Provider, Node: "n", Epoch: 2, Models: []offers.Model{{ID: other.Model,
			Healthy: true, Window: 1024, Class: quant.Bits16, Capacity: 1}}}}}, time.Now())
	first := standing.Event{Ticked: &standing.Tick{}}
	if _, err := s.benchmarks.Mover.Move(t.Context(), other, "first", first); err != nil {
		t.Fatal(err)
	}
	if err := s.benchmarks.Begin(t.Context()); err == nil {
		t.Error("the altered row: got no error, want one")
	}
	s.runs(0)
	s.offer = other
	s.runs(1)
	s.Pass(t, standing.Fresh)
	ticks := &Ticks{Store: s.Stores[0], Mover: s.benchmarks.Mover, Log: slog.New(slog.DiscardHandler)}
	if err := ticks.Pass(t.Context(), false); err != nil {
		t.Errorf("ticks beside it: got the error %v, want none", err)
	}
}

func TestTheAnswerToAnEarlierProbeIsFoundInItsEvidence(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Probe(t, o, false, "reference-1")
	list, err := e.Stores[0].HiddenProbes(t.Context(), probe.ID{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("hidden probes: got %d, want 1", len(list))
	}
	earlier := Earlier{Store: e.Stores[0], Keeper: e.Keepers[0]}
	raw, err := earlier.Answer(t.Context(), list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) == 0 {
		t.Error("the answer: got none, want its bytes")
	}
	raw, err = earlier.Answer(t.Context(), probe.ID{15: 1})
	if err != nil {
		t.Fatal(err)
	}
	if raw != nil {
		t.Errorf("an unknown probe: got %q, want nothing", raw)
	}
}
