package store_test

import (
	"strconv"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// tend has the keeper do all that is due.
func tend(t *testing.T, e *storetest.Env) keep.Tended {
	t.Helper()
	return ok(e.Keepers[0].Tend(t.Context()))(t)
}

// whole fails unless chains and seals are whole.
func whole(t *testing.T, e *storetest.Env) {
	t.Helper()
	if err := e.Keepers[0].CheckChains(t.Context(), probe.Offer{}); err != nil {
		t.Errorf("the chains: got the error %v, want none", err)
	}
	if err := e.Keepers[0].CheckSeals(t.Context(), 400); err != nil {
		t.Errorf("the seals: got the error %v, want none", err)
	}
}

func TestEventsAndProbesAreForgottenAndTheirLinksStay(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	const rounds = 6
	for range rounds {
		e.Probe(t, o, false, "")
	}
	e.Pass(t, keep.Retention-time.Second)
	is(t, "events forgotten before their time", tend(t, e).Events, 0)
	is(t, "probes kept before their time", e.Count(t, `SELECT count(*) FROM probe`), rounds)
	e.Pass(t, time.Second)
	done := tend(t, e)
	is(t, "pieces cleared", done.Cleared, rounds)
	// The last event has no event behind it.
	is(t, "events forgotten", done.Events, rounds-1)
	is(t, "probes forgotten", done.Probes, rounds-1)
	is(t, "observations kept", e.Count(t, `SELECT count(DISTINCT number) FROM observation`), 1)
	is(t, "links kept", e.Count(t, `SELECT count(*) FROM evidence WHERE sealed IS NULL`), rounds)
	whole(t, e)
	e.Probe(t, o, false, "")
	is(t, "the next event", ok(e.Stores[1].Standing(t.Context(), o))(t).Number, int64(rounds+1))
	is(t, "the one before, at the next round", tend(t, e).Events, 1)
	whole(t, e)
}

func TestTheEventThatAVerdictsEvidenceBeginsBehindIsKept(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	pair := standing.Event{Paired: &standing.Pair{}}
	e.Advance(t, o, "1", pair)
	e.Advance(t, o, "2", pair)
	for range 4 {
		e.Probe(t, o, true, "")
	}
	if st := ok(e.Stores[0].Standing(t.Context(), o))(t); st.State.Process.M() == 0 {
		t.Fatal("evidence: got none, want some")
	}
	e.Pass(t, keep.Retention)
	is(t, "events forgotten", tend(t, e).Events, 4)
	is(t, "the last event without evidence M", e.Count(t, `SELECT max(number) FROM event WHERE m = 0`), 2)
	is(t, "the last event", e.Count(t, `SELECT max(number) FROM event`), 6)
	v := removal(o, 1)
	forge(t, e, o, "verdict", v)
	_, first, last, err := e.Stores[0].Span(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "the verdict's first event", first, 3)
	is(t, "its last", last, 7)
	whole(t, e)
}

func TestEventsOfOperatorsAndOfVerdictsAreKept(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	e.Advance(t, o, "ask", standing.Event{Asked: &standing.Ask{}})
	forge(t, e, o, "verdict", removal(o, 1))
	e.Advance(t, o, "tick", standing.Event{Ticked: &standing.Tick{}})
	e.Probe(t, o, false, "")
	e.Pass(t, 2*keep.Retention)
	tend(t, e)
	for kind, want := range map[string]int{"asked": 2, "judged": 1, "ticked": 0} {
		is(t, kind, e.Count(t, `SELECT count(*) FROM event WHERE kind = $1`, kind), want)
	}
}

func TestProbesThatWereNeverAskedAreForgotten(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	var plans []probe.Plan
	for range 3 {
		plans = append(plans, e.Plan(t, o))
	}
	e.Queue(t, plans...)
	e.Exec(t, `UPDATE verifier.probe SET state = 'void', reason = 'x', ended_at = '2026-11-21 12:00:00+00'
		WHERE probe_id <> $1`, plans[2].ID)
	e.Pass(t, keep.Retention)
	for i, want := range []int{1, 1, 0} {
		_, probes, err := e.Stores[i%2].Forget(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		is(t, "probes of round "+strconv.Itoa(i), probes, want)
	}
	is(t, "probes in the queue", e.Count(t, `SELECT count(*) FROM probe WHERE state = 'queued'`), 1)
}

func TestTwoReplicasForgetEachEventOnce(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	const rounds = 20
	for n := range rounds {
		e.Advance(t, o, store.EventKey("pair/"+strconv.Itoa(n)), standing.Event{Paired: &standing.Pair{}})
	}
	e.Pass(t, keep.Retention)
	if _, err := e.Stores[0].ClearEvidence(t.Context(), store.MaxBatch); err != nil {
		t.Fatal(err)
	}
	var forgotten [2]int
	for _, err := range storetest.Race(
		func() (err error) { forgotten[0], _, err = e.Stores[0].Forget(t.Context(), rounds); return err },
		func() (err error) { forgotten[1], _, err = e.Stores[1].Forget(t.Context(), rounds); return err },
	) {
		if err != nil {
			t.Errorf("got the error %v, want none", err)
		}
	}
	is(t, "events forgotten by both", forgotten[0]+forgotten[1], rounds-1)
	whole(t, e)
}
