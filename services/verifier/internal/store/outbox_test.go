package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// calibratedStratum is that of judgetest.
var calibratedStratum = judgetest.Stratum

// verdictOf is a verdict that no rule gave.
func verdictOf(o probe.Offer, n byte, k standing.Kind, trigger string) standing.Verdict {
	v := standing.Verdict{ID: probe.VerdictID(o.Provider), Offer: o, Kind: k, Trigger: trigger, Summary: "It was decided."}
	v.ID[15] = n
	if k == standing.Misrepresentation {
		v.Leading = evidence.Greedy
	}
	return v
}

// forge gives an offer an event with verdicts that no rule gave.
func forge(t *testing.T, e *storetest.Env, o probe.Offer, key store.EventKey, verdicts ...standing.Verdict) {
	t.Helper()
	if _, err := e.Stores[0].Advance(t.Context(), o, key, forged(o, key, standing.Event{Asked: &standing.Ask{}}, nil,
		verdicts...)); err != nil {
		t.Fatal(err)
	}
}

// forged is a change that leaves the state as it is but for what alter does.
func forged(
	o probe.Offer, key store.EventKey, event standing.Event, alter func(*standing.State), verdicts ...standing.Verdict,
) store.Change {
	return func(now time.Time, before standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		w, after := storetest.World(o, key, p), before
		if alter != nil {
			alter(&after)
		}
		for i := range verdicts {
			verdicts[i].At = now
		}
		return event, w, after, standing.Outcome{Verdicts: verdicts, Published: after.Publish(now, w)}, nil
	}
}

// removal is a verdict that takes and removes.
func removal(o probe.Offer, n byte) standing.Verdict {
	v := verdictOf(o, n, standing.Misrepresentation, standing.Approve)
	v.Effects = ladder.Effects{Slash: ladder.NextPenalty, Remove: true, Count: 1}
	return v
}

// reversal takes a verdict back.
func reversal(o probe.Offer, n byte, of probe.VerdictID) standing.Verdict {
	v := verdictOf(o, n, standing.Misrepresentation, string(ladder.Reverse))
	v.Of, v.Effects = of, ladder.Effects{Reinstate: true, Count: -1}
	return v
}

func TestEffectsOfAProviderGoInOrderOneAtATime(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o, other := e.See(t, storetest.Provider(t)), e.See(t, storetest.Provider(t))
	gone := removal(o, 1)
	forge(t, e, o, "1", gone)
	forge(t, e, o, "2", reversal(o, 2, gone.ID))
	forge(t, e, other, "1", verdictOf(other, 3, standing.Benchmark, "pass"))
	var kinds []store.EffectKind
	var subjects []probe.VerdictID
	for range 3 {
		list := ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)
		list = append(list, ok(e.Stores[1].TakeEffects(t.Context(), "b", 10))(t)...)
		for _, f := range list {
			if f.Verdict.Offer == other {
				is(t, "the other's effect", f.Kind, store.ReportBenchmark)
				continue
			}
			kinds, subjects = append(kinds, f.Kind), append(subjects, f.Subject)
			if err := e.Stores[0].EffectDone(t.Context(), "a", f.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []store.EffectKind{store.OpenPenalty, store.Expel, store.Reinstate}; !slices.Equal(kinds, want) {
		t.Errorf("effects: got %v, want %v", kinds, want)
	}
	if want := []probe.VerdictID{gone.ID, gone.ID, gone.ID}; !slices.Equal(subjects, want) {
		t.Errorf("subjects: got %v, want %v", subjects, want)
	}
}

func TestAnEffectIsDoneOnce(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	forge(t, e, o, "1", verdictOf(o, 1, standing.Benchmark, "fail"))
	var got [2][]store.Effect
	take := func(i int) func() error {
		return func() (err error) {
			got[i], err = e.Stores[i].TakeEffects(context.Background(), string(rune('a'+i)), 10)
			return err
		}
	}
	if err := errors.Join(storetest.Race(take(0), take(1))...); err != nil {
		t.Fatal(err)
	}
	is(t, "taken by both", len(got[0])+len(got[1]), 1)
	one, replica := append(got[0], got[1]...)[0], "a"
	if len(got[1]) > 0 {
		replica = "b"
	}
	if err := e.Stores[0].EffectDone(t.Context(), "c", one.ID); !errors.Is(err, store.ErrEffect) {
		t.Errorf("done by another: got the error %v, want %v", err, store.ErrEffect)
	}
	if err := e.Stores[0].EffectDone(t.Context(), replica, one.ID); err != nil {
		t.Errorf("done: got the error %v, want none", err)
	}
	if err := e.Stores[0].EffectDone(t.Context(), replica, one.ID); !errors.Is(err, store.ErrEffect) {
		t.Errorf("done again: got the error %v, want %v", err, store.ErrEffect)
	}
	is(t, "outbox", ok(e.Stores[0].Outbox(t.Context()))(t), store.OutboxState{})
}

func TestAnEffectThatFailsWaitsLongerEachTime(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	forge(t, e, o, "1", verdictOf(o, 1, standing.Benchmark, "fail"))
	pause := time.Second
	for range 12 {
		list := ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)
		if len(list) != 1 {
			t.Fatalf("after a pause of %v: got %d effects, want 1", pause, len(list))
		}
		if err := e.Stores[0].EffectFailed(t.Context(), "a", list[0].ID, "unreachable"); err != nil {
			t.Fatal(err)
		}
		e.Pass(t, pause-time.Microsecond)
		is(t, "within the pause", len(ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)), 0)
		e.Pass(t, time.Microsecond)
		pause = min(2*pause, 10*time.Minute)
	}
	got := ok(e.Stores[0].Outbox(t.Context()))(t)
	is(t, "pending", got.Pending, 1)
}

func TestALeaseOfAnEffectExpires(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	forge(t, e, o, "1", verdictOf(o, 1, standing.Benchmark, "fail"))
	ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)
	e.Pass(t, store.EffectLease-time.Microsecond)
	is(t, "within the lease", len(ok(e.Stores[1].TakeEffects(t.Context(), "b", 10))(t)), 0)
	e.Pass(t, time.Microsecond)
	is(t, "after the lease", len(ok(e.Stores[1].TakeEffects(t.Context(), "b", 10))(t)), 1)
}

func TestARefusedEffectStaysVisibleAndKeepsNoneWaiting(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	forge(t, e, o, "1", verdictOf(o, 1, standing.Benchmark, "fail"))
	forge(t, e, o, "2", verdictOf(o, 2, standing.Benchmark, "pass"))
	first := ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)[0]
	if err := e.Stores[0].EffectRefused(t.Context(), "a", first.ID, "no such\x00 provider"); err != nil {
		t.Fatal(err)
	}
	is(t, "outbox", ok(e.Stores[0].Outbox(t.Context()))(t), store.OutboxState{Pending: 1, Refused: 1})
	second := ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)
	is(t, "effects behind it", len(second), 1)
	list := ok(e.Stores[0].RefusedEffects(t.Context(), 0, 10))(t)
	is(t, "refused", list[0].Problem, "no such  provider")
	if err := e.Stores[0].EffectDone(t.Context(), "a", second[0].ID); err != nil {
		t.Fatal(err)
	}
	is(t, "tried again", ok(e.Stores[0].RetryEffect(t.Context(), first.ID))(t), true)
	is(t, "taken again", ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)[0].ID, first.ID)
}

func TestAReversedPenaltyCountsNoMore(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t), "a", "b")
	other := probe.Offer{Provider: o.Provider, Model: "b"}
	read := func(key store.EventKey) (p store.ProviderStanding) {
		t.Helper()
		apply := storetest.Apply(other, key, standing.Event{Paired: &standing.Pair{}})
		if _, err := e.Stores[0].Advance(t.Context(), other, key, func(
			now time.Time, s standing.State, got store.ProviderStanding,
		) (standing.Event, standing.World, standing.State, standing.Outcome, error) {
			p = got
			return apply(now, s, got)
		}); err != nil {
			t.Fatal(err)
		}
		return p
	}
	gone := removal(o, 1)
	forge(t, e, o, "1", gone)
	p := read("1")
	is(t, "rank of the second model", p.Rank, 2)
	is(t, "penalties", p.Penalties, 1)
	is(t, "since", p.LastPenaltyAt, storetest.Start)
	is(t, "removed by", p.RemovedBy, gone.ID)
	is(t, "penalties are on", p.PenaltiesOn, true)
	forge(t, e, o, "2", reversal(o, 2, gone.ID))
	p = read("2")
	is(t, "penalties after the reversal", p.Penalties, 0)
	is(t, "removed by after the reversal", p.RemovedBy, probe.VerdictID{})
	if _, _, err := e.Stores[0].Suspect(t.Context(), store.StratumID(calibratedStratum), "x"); err != nil {
		t.Fatal(err)
	}
	is(t, "a common cause in another model", read("3").CommonCause, false)
}

func TestWhoTurnsPenaltiesOffWaitsForAVerdictUnderWay(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	under, off := make(chan struct{}), make(chan error, 1)
	change := forged(o, "1", standing.Event{Asked: &standing.Ask{}}, nil, removal(o, 1))
	_, err := e.Stores[0].Advance(t.Context(), o, "1", func(now time.Time, s standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		go func() {
			close(under)
			_, err := e.Stores[1].Set(context.Background(), store.Penalties, false, "operator", "a doubt")
			off <- err
		}()
		<-under
		return change(now, s, p)
	})
	if err != nil {
		t.Errorf("the verdict under way: got the error %v, want none", err)
	}
	if err := <-off; err != nil {
		t.Errorf("the switch: got the error %v, want none", err)
	}
	change = forged(o, "2", standing.Event{Asked: &standing.Ask{}}, nil, removal(o, 2))
	if _, err := e.Stores[0].Advance(t.Context(), o, "2", change); err == nil {
		t.Error("a verdict that takes while penalties are off: got no error, want a refusal")
	}
}
