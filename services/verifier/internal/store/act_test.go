package store_test

import (
	"context"
	"testing"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/actstest"
	"svc.internal/pkg/acts/acttable"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

func TestActsOfOperatorsAreListedFromAnIndex(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	actstest.CheckLists(t, actstest.Service{Store: e.Stores[0], Owner: e.Owner,
		Table: acttable.Table{Subject: "subject"}, Action: "set_penalties",
		Common: "penalties", Rare: "0192f0c0-0000-7000-8000-000000000001"})
}

// lastAct is the newest act; the zero act for none.
func lastAct(t *testing.T, e *storetest.Env) acts.Act {
	t.Helper()
	for _, a := range ok(e.Stores[0].Acts(t.Context(), acts.Filter{Limit: 1}))(t) {
		return a
	}
	return acts.Act{}
}

// What an operator asks for is an act, and the same by the platform itself is none.
func TestWhatOperatorsBeginIsAnActAndWhatThePlatformBeginsIsNone(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	alice := actor.WithOperator(t.Context(), "alice@0189")
	o := e.See(t, storetest.Provider(t), "a", "b")
	stratum := judgetest.Stratum
	stratum.Model = "a/other"
	for name, begin := range map[string]func(ctx context.Context, mine bool) (string, error){
		"start_calibration": func(ctx context.Context, mine bool) (string, error) {
			s := judgetest.Stratum
			if mine {
				s = stratum
			}
			_, _, err := e.Stores[0].StartCalibration(ctx, ok(e.Stores[0].KeepStratum(ctx, s))(t))
			return s.Model, err
		},
		"run_benchmark": func(ctx context.Context, mine bool) (string, error) {
			run := store.Run{ID: probe.RunID{1}, Offer: o, Basis: store.Asked, Body: []byte("begun"), NextAt: storetest.Start}
			if mine {
				run.ID, run.Offer.Model = probe.RunID{2}, "b"
			}
			return o.Provider.String(), e.Stores[0].StartRun(ctx, run)
		},
		"set_probes": func(ctx context.Context, mine bool) (string, error) {
			by := "platform"
			if mine {
				by = actor.OfOperator(ctx)
			}
			_, err := e.Stores[0].Set(ctx, store.Probes, mine, by, "why")
			return "probes", err
		},
	} {
		known := lastAct(t, e)
		if _, err := begin(t.Context(), false); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		is(t, name+" by the platform", lastAct(t, e), known)
		subject, err := begin(alice, true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := lastAct(t, e)
		is(t, name+": actor", got.Actor, "operator:alice@0189")
		is(t, name+": action", got.Action, name)
		is(t, name+": subject", got.Subject, subject)
		if _, err := begin(alice, true); err != nil {
			t.Fatalf("%s again: %v", name, err)
		}
		is(t, name+" again", lastAct(t, e), got)
	}
}

func TestAnEffectThatIsTriedAgainIsAnActOnItsVerdict(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	v := verdictOf(o, 1, standing.Benchmark, "fail")
	forge(t, e, o, "1", v)
	effect := ok(e.Stores[0].TakeEffects(t.Context(), "a", 10))(t)[0]
	if err := e.Stores[0].EffectRefused(t.Context(), "a", effect.ID, "no"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing refused
		ok(e.Stores[0].RetryEffect(actor.WithOperator(t.Context(), "alice@0189"), effect.ID))(t)
	}
	got := lastAct(t, e)
	is(t, "action", got.Action, "retry_effect")
	is(t, "subject", got.Subject, effect.Verdict.ID.String())
	is(t, "acts", e.Count(t, `SELECT count(*) FROM operator_action`), 1)
}

func TestNobodyChangesWhatOperatorsDid(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	const add = `INSERT INTO operator_action (actor, action, subject, detail) VALUES `
	e.Exec(t, add+`('operator', 'set_probes', 'x', '{}')`)
	const kept = "kept as they are"
	refused(t, e, map[string]attack{
		"a change":        {asOwner: true, sql: `UPDATE operator_action SET actor = 'operator'`, says: kept},
		"a deletion":      {asOwner: true, sql: `DELETE FROM operator_action`, says: kept},
		"all":             {asOwner: true, sql: `TRUNCATE operator_action`, says: kept},
		"a strange actor": {sql: add + `('operator:<b>', 'set_probes', 'x', '{}')`, says: "operator_action_actor_check"},
		"another action":  {sql: add + `('operator', 'steal', 'x', '{}')`, says: "operator_action_action_check"},
		"no subject":      {sql: add + `('operator', 'set_probes', '', '{}')`, says: "operator_action_subject_check"},
		"no object":       {sql: add + `('operator', 'set_probes', 'x', '[]')`, says: "operator_action_detail_check"},
		"a time of its own": {sql: `INSERT INTO operator_action (at, actor, action, subject, detail)
			VALUES (now(), 'operator', 'set_probes', 'x', '{}')`, says: "permission denied"},
	})
}
