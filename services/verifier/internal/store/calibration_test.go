package store_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/calibrate"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// fitted are calibrations of judgetest's stratum.
func fitted(t *testing.T) []store.Fitted {
	t.Helper()
	var list []store.Fitted
	for _, f := range []evidence.Family{evidence.Greedy, evidence.Recall} {
		c, err := calibration.Decode(judgetest.Calibration(t, f, .1))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, store.Fitted{Calibration: c, Penal: f == evidence.Greedy})
	}
	return list
}

func TestACalibrationGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	key := ok(e.Stores[0].KeepStratum(t.Context(), judgetest.Stratum))(t)
	run, fresh, err := e.Stores[0].StartCalibration(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "the first is fresh", fresh, true)
	again, fresh, err := e.Stores[1].StartCalibration(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "the second is fresh", fresh, false)
	is(t, "the second", again, run)
	for range 2 {
		if err := e.Stores[1].AddSamples(t.Context(), run,
			store.Sample{Family: evidence.Greedy, Number: 2, Host: "b", Body: []byte{2}},
			store.Sample{Family: evidence.Greedy, Number: 1, Host: "a", Body: []byte{1}},
			store.Sample{Family: evidence.Greedy, Number: 1, Host: "c", Cheaper: true, Body: []byte{3}},
			store.Sample{Family: evidence.Usage, Number: 1, Host: "a", Body: []byte{4}}); err != nil {
			t.Fatal(err)
		}
	}
	list := ok(e.Stores[0].Samples(t.Context(), run, evidence.Greedy))(t)
	var bodies []byte
	for _, s := range list {
		bodies = append(bodies, s.Body...)
	}
	is(t, "samples of B in order", bytes.Equal(bodies, []byte{1, 2, 3}), true)
	running := ok(e.Stores[0].RunningCalibrations(t.Context(), 10))(t)
	is(t, "running", len(running), 1)
	is(t, "its samples", running[0].Samples, 4)
	is(t, "its stratum", running[0].Stratum.Stratum, judgetest.Stratum)
}

func TestARunOfACalibrationEndsOnce(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	key := ok(e.Stores[0].KeepStratum(t.Context(), judgetest.Stratum))(t)
	run, _, err := e.Stores[0].StartCalibration(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	all := fitted(t)
	finish := func(i int) func() error {
		return func() error { return e.Stores[i].FinishCalibration(context.Background(), run, all...) }
	}
	errs := storetest.Race(finish(0), finish(1))
	is(t, "one finishes", (errs[0] == nil) != (errs[1] == nil), true)
	for what, err := range map[string]error{
		"the other finish": errors.Join(errs...),
		"a late sample": e.Stores[0].AddSamples(t.Context(), run,
			store.Sample{Family: evidence.Greedy, Number: 9, Host: "a", Body: []byte{1}}),
		"giving it up": e.Stores[0].AbandonCalibration(t.Context(), run, "late"),
	} {
		if !errors.Is(err, store.ErrCalibrationRun) {
			t.Errorf("%s: got the error %v, want %v", what, err, store.ErrCalibrationRun)
		}
	}
	list := ok(e.Stores[1].Calibrations(t.Context(), judgetest.Model, store.StratumKey{}, 10))(t)
	is(t, "calibrations", len(list), 2)
	hash, err := list[0].Calibration.Hash()
	if err != nil {
		t.Fatal(err)
	}
	is(t, "hash", list[0].Hash, hash)
	is(t, "of another model", len(ok(e.Stores[1].Calibrations(t.Context(), "x", store.StratumKey{}, 10))(t)), 0)
}

func TestTheLastCalibrationCounts(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	key := ok(e.Stores[0].KeepStratum(t.Context(), judgetest.Stratum))(t)
	for _, largest := range []float64{.1, .2} {
		run, _, err := e.Stores[0].StartCalibration(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := calibration.Decode(judgetest.Calibration(t, evidence.Greedy, largest))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Stores[0].FinishCalibration(t.Context(), run, store.Fitted{Calibration: c}); err != nil {
			t.Fatal(err)
		}
		e.Pass(t, 1)
		e.Pass(t, 1_000_000)
	}
	list := ok(e.Stores[0].Calibrations(t.Context(), "", store.StratumKey{}, 10))(t)
	is(t, "calibrations", len(list), 1)
	is(t, "largest", list[0].Calibration.Largest[0], .2)
	is(t, "runs", len(ok(e.Stores[0].CalibrationRuns(t.Context(), store.CalibrationRunID{}, 10))(t)), 2)
}

// What honest hosts do today is not known where no reference made a calibration anew.
func TestACalibrationThatWasNotMadeAnewCountsNoMore(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	for _, c := range []struct {
		pass   time.Duration
		want   int
		judged bool
	}{{2*calibrate.Interval - time.Hour, 1, true}, {2 * time.Hour, 0, false}} {
		e.Pass(t, c.pass)
		list := ok(e.Stores[0].Calibrations(t.Context(), "", store.StratumKey{}, 10))(t)
		is(t, "calibrations", len(list), c.want)
		strata := ok(e.Stores[0].Strata(t.Context(), "", store.StratumKey{}, 10))(t)
		is(t, "offers are judged by the stratum", strata[0].Judged, c.judged)
	}
}

func TestACommonCauseIsSuspectedUntilTheGuardFindsNothing(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	key := ok(e.Stores[0].KeepStratum(t.Context(), judgetest.Stratum))(t)
	suspect := func(i int) (time.Time, bool) {
		t.Helper()
		since, fresh, err := e.Stores[i].Suspect(t.Context(), key, "two references differ")
		if err != nil {
			t.Fatal(err)
		}
		return since, fresh
	}
	clearAsOf := func(at time.Time) string {
		t.Helper()
		if err := e.Stores[0].Cleared(t.Context(), key, at); err != nil {
			t.Fatal(err)
		}
		return ok(e.Stores[1].Strata(t.Context(), judgetest.Model, store.StratumKey{}, 10))(t)[0].Suspicion
	}
	_, first := suspect(0)
	is(t, "the first is fresh", first, true)
	e.Pass(t, 1e9)
	since, second := suspect(1)
	is(t, "the second is fresh", second, false)
	is(t, "since", since, storetest.Start)
	is(t, "suspicion after a look from before it", clearAsOf(storetest.Start), "two references differ")
	is(t, "suspicion after a look at it", clearAsOf(storetest.Start.Add(1e9)), "")
	got := ok(e.Stores[0].Strata(t.Context(), "", store.StratumKey{}, 10))(t)
	is(t, "checked", got[0].CheckedAt, storetest.Start.Add(1e9))
	unknown := store.StratumKey{1}
	_, _, err := e.Stores[0].Suspect(t.Context(), unknown, "x")
	for _, err := range []error{err, e.Stores[0].Cleared(t.Context(), unknown, storetest.Start)} {
		if !errors.Is(err, store.ErrStratum) {
			t.Errorf("an unknown stratum: got the error %v, want %v", err, store.ErrStratum)
		}
	}
}

// What two references say of one answer is everybody's, with the observation or not at all.
func TestHowFarReferencesAreApartIsKeptWithTheObservation(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	ok(e.Stores[0].KeepStratum(t.Context(), judgetest.Stratum))(t)
	o := e.See(t, storetest.Provider(t))
	apart := func() float64 {
		t.Helper()
		return ok(e.Stores[1].Strata(t.Context(), "", store.StratumKey{}, 10))(t)[0].Apart
	}
	is(t, "before a comparison", apart(), 0)
	key, event := e.Compared(t, o, -.8, -.7)
	failed := errors.New("the change gives up")
	_, err := e.Stores[0].Advance(t.Context(), o, key, func(now time.Time, s standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		w := storetest.World(o, key, p)
		after, out, err := s.Apply(event, now, w)
		return event, w, after, out, errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	is(t, "after an observation that was not written", apart(), 0)
	e.Advance(t, o, key, event)
	if got := apart(); got < calibration.Tau/2 {
		t.Errorf("after an answer of which references differ: got %v, want at least %v", got, calibration.Tau/2)
	}
	e.Pass(t, store.ComparedFor)
	is(t, "a week later", apart(), 0)
	key, event = e.Compared(t, o, -.8, -.7)
	e.Advance(t, o, key, event)
	key, event = e.Compared(t, o, -.6, -.8)
	e.Advance(t, o, key, event)
	is(t, "after one of which they agree", apart(), 0)
}

func TestExceedancesAreCountedByProvider(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	honest, cheat := e.See(t, storetest.Provider(t)), e.See(t, storetest.Provider(t))
	e.Probe(t, honest, false, "")
	e.Probe(t, cheat, true, "")
	e.Probe(t, cheat, true, "")
	list := ok(e.Stores[0].Exceedances(t.Context(), store.StratumID(judgetest.Stratum), storetest.Start))(t)
	if len(list) != 2 {
		t.Fatalf("providers: got %d, want 2", len(list))
	}
	for _, x := range list {
		want := store.Exceedance{Provider: honest.Provider, Observed: 2}
		if x.Provider == [16]byte(cheat.Provider) {
			want = store.Exceedance{Provider: cheat.Provider, Observed: 4, Exceeded: 2}
		}
		is(t, "observations", x, want)
	}
}
