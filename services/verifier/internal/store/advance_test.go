package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// is reports a difference.
func is[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// ok ends the test for an error.
func ok[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// until probes an offer every half hour until it has a level, and returns the last outcome.
func until(t *testing.T, e *storetest.Env, o probe.Offer, level ladder.Level, host string) standing.Outcome {
	t.Helper()
	for range 500 {
		e.Pass(t, 30*time.Minute)
		out := e.Probe(t, o, true, host)
		if ok(e.Stores[0].Standing(t.Context(), o))(t).State.Level == level {
			return out
		}
	}
	t.Fatalf("the level never became %s", level)
	return standing.Outcome{}
}

// penalized brings an offer to a penalty of misrepresentation.
func penalized(t *testing.T, e *storetest.Env, o probe.Offer) standing.Verdict {
	t.Helper()
	until(t, e, o, ladder.Confirm, "reference-1")
	out := until(t, e, o, ladder.Penalty, "reference-2")
	if len(out.Verdicts) != 1 {
		t.Fatalf("verdicts of the last probe: got %d, want 1", len(out.Verdicts))
	}
	return out.Verdicts[0]
}

func TestACareerFromNothingToAPenaltyIsWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	v := penalized(t, e, o)
	s := ok(e.Stores[1].Standing(t.Context(), o))(t)
	is(t, "level", s.State.Level, ladder.Penalty)
	is(t, "events", s.Number, int64(e.Count(t, `SELECT count(*) FROM event`)))
	is(t, "pieces", e.Count(t, `SELECT count(*) FROM evidence`), int(s.Number))
	is(t, "probes that are not done", e.Count(t, `SELECT count(*) FROM probe WHERE state <> 'done'`), 0)
	is(t, "observations of B", e.Count(t, `SELECT count(*) FROM observation WHERE family = 'greedy' AND exceeded`),
		int(s.Number))
	var triggers []string
	for _, one := range ok(e.Stores[0].Verdicts(t.Context(), store.VerdictFilter{}, probe.VerdictID{}, 10))(t) {
		triggers = append(triggers, one.Trigger)
	}
	is(t, "verdicts, the last first", len(triggers), 3)
	kept := ok(e.Stores[0].Verdict(t.Context(), v.ID))(t)
	if kept.Verdict != v {
		t.Errorf("the verdict that is kept: got %+v, want %+v", kept.Verdict, v)
	}
	is(t, "the last event of its evidence", kept.Number, s.Number)
	// M was set to 0 by the notice, whose own evidence is before.
	notice := e.Count(t, `SELECT number FROM verdict WHERE cause = 'notify'`)
	is(t, "the first event of its evidence", kept.First, int64(notice+1))
	is(t, "effects", e.Count(t, `SELECT count(*) FROM effect WHERE kind = 'open_penalty'`), 1)
}

func TestTheSameEventTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	ev := standing.Event{Paired: &standing.Pair{ProbeFailed: true}}
	first := e.Advance(t, o, "pair:1", ev)
	before := ok(e.Stores[0].Standing(t.Context(), o))(t)
	again, err := e.Stores[1].Advance(t.Context(), o, "pair:1", func(time.Time, standing.State, store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		t.Error("the second delivery called the change, want the first outcome without it")
		return standing.Event{}, standing.World{}, standing.State{}, standing.Outcome{}, errors.New("called")
	})
	if err != nil {
		t.Fatal(err)
	}
	is(t, "trust that the repeat returns", again.Published.Trust, first.Published.Trust)
	is(t, "grace that the repeat returns", again.Published.GraceUntil, first.Published.GraceUntil)
	after := ok(e.Stores[0].Standing(t.Context(), o))(t)
	is(t, "events", after.Number, before.Number)
	e.Advance(t, o, "pair:2", ev)
	is(t, "events after another key", ok(e.Stores[0].Standing(t.Context(), o))(t).Number, before.Number+1)
}

func TestOfTwoReplicasWithOneAnswerOneIsObserved(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	for round := range 10 {
		plan := e.Plan(t, o)
		e.Queue(t, plan)
		ok(e.Stores[0].Take(t.Context(), "a", 1))(t)
		advance := func(i int, exceeded bool) func() error {
			r := judgetest.Greedy(t, judgetest.Say{N: 1, Exceeded: exceeded})
			r.Plan, r.Answer.Served = plan, o.Provider.String()
			key := store.ProbeKey(plan.ID)
			return func() error {
				_, err := e.Stores[i].Advance(context.Background(), o, key, storetest.Apply(o, key, standing.Event{Judged: &r}))
				return err
			}
		}
		if err := errors.Join(storetest.Race(advance(0, true), advance(1, false), advance(1, true))...); err != nil {
			t.Fatal(err)
		}
		is(t, "events of the probe", e.Count(t, `SELECT count(*) FROM event WHERE probe_id = $1`, plan.ID), 1)
		is(t, "observations of B", e.Count(t, `SELECT count(*) FROM observation WHERE probe_id = $1 AND family = 'greedy'`,
			plan.ID), 1)
		is(t, "standing's events", ok(e.Stores[0].Standing(t.Context(), o))(t).Number, int64(round+1))
	}
	if err := e.Keepers[0].CheckChains(t.Context(), o); err != nil {
		t.Errorf("the chain: got the error %v, want none", err)
	}
}

func TestOffersOfAProviderMovedAtOnceKeepTheirChains(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	provider := storetest.Provider(t)
	e.See(t, provider, "a", "b")
	var all []func() error
	for i := range 16 {
		o := probe.Offer{Provider: provider, Model: string(rune('a' + i%2))}
		key := store.EventKey(rune('A' + i))
		all = append(all, func() error {
			_, err := e.Stores[i%2].Advance(context.Background(), o, key,
				storetest.Apply(o, key, standing.Event{Paired: &standing.Pair{}}))
			return err
		})
	}
	if err := errors.Join(storetest.Race(all...)...); err != nil {
		t.Fatal(err)
	}
	is(t, "events", e.Count(t, `SELECT sum(number) FROM standing`), 16)
	if err := e.Keepers[0].CheckChains(t.Context(), probe.Offer{}); err != nil {
		t.Errorf("the chains: got the error %v, want none", err)
	}
}

func TestAConnectionThatIsKilledInTheMiddleLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	plan := e.Plan(t, o)
	e.Queue(t, plan)
	ok(e.Stores[0].Take(t.Context(), "a", 1))(t)
	r := judgetest.Greedy(t, judgetest.Say{N: 1, Exceeded: true})
	r.Plan, r.Answer.Served = plan, o.Provider.String()
	key := store.ProbeKey(plan.ID)
	apply := storetest.Apply(o, key, standing.Event{Judged: &r})
	_, err := e.Stores[0].Advance(t.Context(), o, key, func(now time.Time, s standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		e.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction'`)
		return apply(now, s, p)
	})
	if err == nil {
		t.Error("the killed connection: got no error, want one")
	}
	for _, table := range []string{"event", "observation", "standing", "evidence"} {
		is(t, "rows of "+table, e.Count(t, `SELECT count(*) FROM `+table), 0)
	}
	is(t, "leased probes", e.Count(t, `SELECT count(*) FROM probe WHERE state = 'leased'`), 1)
	ok(e.Stores[0].Advance(t.Context(), o, key, apply))(t)
	is(t, "events after the repeat", e.Count(t, `SELECT count(*) FROM event`), 1)
}

func TestAnErrorOfTheChangeChangesNothing(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	want := errors.New("no")
	_, err := e.Stores[0].Advance(t.Context(), o, "x", func(time.Time, standing.State, store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		return standing.Event{}, standing.World{}, standing.State{}, standing.Outcome{}, want
	})
	if !errors.Is(err, want) {
		t.Errorf("got the error %v, want %v", err, want)
	}
	is(t, "events", e.Count(t, `SELECT count(*) FROM event`), 0)
}

func TestAnOfferThatWasNeverSeenHasNoStanding(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := probe.Offer{Provider: storetest.Provider(t), Model: "m"}
	if _, err := e.Stores[0].Advance(t.Context(), o, "x",
		storetest.Apply(o, "x", standing.Event{Ticked: &standing.Tick{}})); !errors.Is(err, store.ErrOffer) {
		t.Errorf("advance: got the error %v, want %v", err, store.ErrOffer)
	}
	if _, err := e.Stores[0].Standing(t.Context(), o); !errors.Is(err, store.ErrStanding) {
		t.Errorf("standing: got the error %v, want %v", err, store.ErrStanding)
	}
}

func TestAKeyThatIsNoKeyIsRefused(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	r := judgetest.Greedy(t, judgetest.Say{N: 1})
	r.Plan = e.Plan(t, o)
	r.Answer.Served = o.Provider.String()
	for name, tc := range map[string]struct {
		key   store.EventKey
		event standing.Event
	}{
		"empty":             {"", standing.Event{Asked: &standing.Ask{}}},
		"too long":          {store.EventKey(make([]byte, store.MaxKey+1)), standing.Event{Asked: &standing.Ask{}}},
		"another probe's":   {store.ProbeKey(probe.ID{9}), standing.Event{Judged: &r}},
		"a name of a probe": {"judged", standing.Event{Judged: &r}},
	} {
		_, err := e.Stores[0].Advance(t.Context(), o, tc.key, storetest.Apply(o, tc.key, tc.event))
		if !errors.Is(err, store.ErrKey) {
			t.Errorf("%s: got the error %v, want %v", name, err, store.ErrKey)
		}
	}
}

func TestTimeThatChangesNothingIsNotWritten(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	tick := standing.Event{Ticked: &standing.Tick{}}
	e.Advance(t, o, "tick:1", tick)
	first := e.Count(t, `SELECT count(*) FROM event`)
	for i := range 5 {
		e.Pass(t, time.Hour)
		e.Advance(t, o, store.EventKey("later:"+string(rune('a'+i))), tick)
	}
	is(t, "events after five idle hours", e.Count(t, `SELECT count(*) FROM event`), first)
	// The end of the grace is published.
	e.Pass(t, standing.Grace)
	e.Advance(t, o, "tick:2", tick)
	is(t, "events after the grace", e.Count(t, `SELECT count(*) FROM event`), first+1)
	s := ok(e.Stores[0].Standing(t.Context(), o))(t)
	is(t, "grace", s.Opinion.GraceUntil, time.Time{})
	is(t, "revision", s.Opinion.Revision, int64(first+1))
}

func TestAClockThatIsSetBackMovesNoOfferBack(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	e.Pass(t, 48*time.Hour)
	e.Advance(t, o, "1", standing.Event{Paired: &standing.Pair{}})
	at := ok(e.Stores[0].Standing(t.Context(), o))(t).MovedAt
	if _, err := e.Keepers[0].Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Pass(t, -40*time.Hour)
	e.Advance(t, o, "2", standing.Event{Paired: &standing.Pair{}})
	is(t, "the time of the second event", ok(e.Stores[0].Standing(t.Context(), o))(t).MovedAt, at)
	if err := e.Keepers[0].CheckSeals(t.Context(), 10); err != nil {
		t.Errorf("the seals: got the error %v, want none", err)
	}
}
