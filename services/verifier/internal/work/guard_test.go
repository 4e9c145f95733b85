package work_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/work"
)

// watch is a guard that remembers how many strata it suspects.
type watch struct {
	*work.Guard
	suspected int
}

func newWatch(s *store.Store) *watch {
	var told []ids.ProviderID
	w := &watch{suspected: -1}
	w.Guard = &work.Guard{Store: s, Mover: mover(s, &told), Log: slog.New(slog.DiscardHandler),
		Suspected: func(_ context.Context, n int) { w.suspected = n }}
	return w
}

func (w *watch) pass(t *testing.T) {
	t.Helper()
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// probeIn has a probe of an offer judged in a stratum.
func probeIn(t *testing.T, e *storetest.Env, o probe.Offer, stratum calibration.Stratum, exceeded bool) {
	t.Helper()
	r := judgetest.Greedy(t, judgetest.Say{N: 1, Exceeded: exceeded})
	r.Plan = e.Plan(t, o)
	r.Plan.Stratum, r.Answer.Served = stratum, o.Provider.String()
	e.Queue(t, r.Plan)
	must(e.Stores[0].Take(t.Context(), "a", store.MaxBatch))(t)
	e.Advance(t, o, store.ProbeKey(r.Plan.ID), standing.Event{Judged: &r})
}

// braked reports whether the next event of an offer finds a common cause in its model.
func braked(t *testing.T, e *storetest.Env, o probe.Offer) (common bool) {
	t.Helper()
	_, err := e.Stores[0].Advance(t.Context(), o, "looked", func(
		now time.Time, before standing.State, p store.ProviderStanding,
	) (standing.Event, standing.World, standing.State, standing.Outcome, error) {
		common = p.CommonCause
		return standing.Event{}, standing.World{}, before, standing.Outcome{}, context.Canceled
	})
	if err == nil {
		t.Fatal("a change that gives up: got no error, want one")
	}
	return common
}

// Accounts of three persons that agree on an engine are all the owners of their stratum.
func TestAStratumOfNoReferenceDoesNotBrakeItsModel(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	invented := judgetest.Stratum
	invented.Engine = "an engine of our own"
	must(e.Stores[0].KeepStratum(t.Context(), invented))(t)
	honest, w := e.See(t, storetest.Provider(t)), newWatch(e.Stores[0])
	for range 3 {
		probeIn(t, e, e.See(t, storetest.Provider(t)), invented, true)
	}
	w.pass(t)
	if w.suspected != 0 {
		t.Errorf("strata suspected for an engine of no reference: got %d, want 0", w.suspected)
	}
	if braked(t, e, honest) {
		t.Error("the ladder of an honest offer stands still: got true, want false")
	}
	see := func(ago time.Duration) {
		if err := e.Stores[0].SeeReferences(t.Context(), []store.Reference{{Model: invented.Model, Host: "r/1",
			Provider: storetest.Provider(t), Class: invented.Class, Engine: invented.Engine}}); err != nil {
			t.Fatal(err)
		}
		e.Exec(t, `UPDATE reference SET seen_at = (SELECT at FROM clock.clock) - $1::interval`, ago)
	}
	see(time.Hour)
	w.pass(t)
	if w.suspected != 1 {
		t.Errorf("strata suspected while a reference serves the engine: got %d, want 1", w.suspected)
	}
	if !braked(t, e, honest) {
		t.Error("the ladder stands still while a reference serves the engine: got false, want true")
	}
	e.Pass(t, time.Second)
	see(25 * time.Hour)
	if braked(t, e, honest) {
		t.Error("the ladder stands still after the reference has left: got true, want false")
	}
	w.pass(t)
	if n := e.Count(t, `SELECT count(*) FROM stratum WHERE suspected_since IS NOT NULL`); n != 0 {
		t.Errorf("suspicions after the reference has left: got %d, want 0", n)
	}
}

// One probe in fifty compares two references, on whichever replica it is judged.
func TestReplicasAgreeThatReferencesDiffer(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	var told []ids.ProviderID
	compare := func(own, other float64) {
		t.Helper()
		key, event := e.Compared(t, o, own, other)
		must(mover(e.Stores[0], &told).Move(t.Context(), o, key, event))(t)
	}
	both := []*watch{newWatch(e.Stores[0]), newWatch(e.Stores[1])}
	for _, c := range []struct {
		what       string
		own, other float64
		want       int
	}{{"differ", -.8, -.7, 1}, {"agree", -.6, -.8, 0}} {
		compare(c.own, c.other)
		for range 2 {
			for i, w := range both {
				e.Pass(t, time.Second)
				w.pass(t)
				if w.suspected != c.want {
					t.Errorf("strata that replica %d suspects, references %s: got %d, want %d", i, c.what, w.suspected, c.want)
				}
				if n := e.Count(t, `SELECT count(*) FROM stratum WHERE suspected_since IS NOT NULL`); n != c.want {
					t.Errorf("suspicions after replica %d, references %s: got %d, want %d", i, c.what, n, c.want)
				}
			}
		}
	}
	if n := e.Count(t, `SELECT count(*) FROM event WHERE kind = 'voided'`); n != 1 {
		t.Errorf("times that the observations became void: got %d, want 1", n)
	}
}

// A replica that ends between the suspicion and its consequences leaves them to the others.
func TestWhatASuspicionVoidsIsVoidAfterACrash(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	for range 3 {
		e.Probe(t, e.See(t, storetest.Provider(t)), true, "")
	}
	if _, _, err := e.Stores[0].Suspect(t.Context(), store.StratumID(judgetest.Stratum), "many_exceed"); err != nil {
		t.Fatal(err)
	}
	w := newWatch(e.Stores[1])
	for range 2 {
		e.Pass(t, 5*time.Minute)
		w.pass(t)
	}
	if n := e.Count(t, `SELECT count(*) FROM event WHERE kind = 'voided'`); n != 3 {
		t.Errorf("offers whose observations are void, each once: got %d, want 3", n)
	}
}
