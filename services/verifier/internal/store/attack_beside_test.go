package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

func TestTheDatabaseRefusesOtherOfferingsAndCounts(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	if ok(e.Stores[0].Identify(t.Context(), o.Provider, store.Identity{Kind: store.Wallet}))(t) != true {
		t.Fatal("the identity was not recorded")
	}
	refused(t, e, map[string]attack{
		"another rank": {asOwner: true, sql: `UPDATE offering SET rank = 9`,
			says: "keeps its name and its rank"},
		"another rank, the role": {sql: `UPDATE offering SET rank = 9`, says: "permission denied"},
		"an offering that goes":  {asOwner: true, sql: `DELETE FROM offering`, says: "kept as they are|foreign key"},
		"a provider that goes":   {asOwner: true, sql: `DELETE FROM provider`, says: "kept as they are"},
		"fewer models":           {sql: `UPDATE provider SET models = 0`, says: "grow by one"},
		"a revision that goes back": {sql: `UPDATE provider SET revision = revision - 1`,
			says: "grow by one|provider_revision_check"},
		"an identity that goes": {asOwner: true, sql: `DELETE FROM identity`, says: "kept as they are"},
		"an identity of no kind": {sql: `INSERT INTO identity (kind, digest, provider_id) VALUES ('name',
			decode(repeat('00', 32), 'hex'), gen_random_uuid())`,
			says: "identity_kind_check"},
		"an identity in the clear": {sql: `INSERT INTO identity (kind, digest, provider_id) VALUES ('wallet', 'abc',
			gen_random_uuid())`,
			says: "identity_digest_check"},
	})
}

func TestTheDatabaseRefusesOtherSettingsAndKeys(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	putKey(t, e, 1)
	refused(t, e, map[string]attack{
		"penalties without a calibration": {sql: `UPDATE setting SET enabled = true, revision = 2 WHERE name = 'penalties'`,
			says: "calibrated far enough"},
		"a switch without an entry": {sql: `UPDATE setting SET enabled = false, revision = 2 WHERE name = 'probes'`,
			says: "changes with an entry"},
		"a revision that is skipped": {sql: `UPDATE setting SET enabled = false, revision = 3 WHERE name = 'probes'`,
			says: "one revision at a time"},
		"a switch that stays": {sql: `UPDATE setting SET enabled = true, revision = 2 WHERE name = 'probes'`,
			says: "one revision at a time"},
		"an entry ahead": {sql: `INSERT INTO setting_change VALUES ('probes', 2, false, 'operator',
			'x', now())`,
			says: "not ahead of its setting"},
		"an entry of nobody": {sql: `INSERT INTO setting_change VALUES ('probes', 2, false, 'me', 'x', now())`,
			says: "setting_change_actor_check"},
		"an entry for no reason": {sql: `INSERT INTO setting_change VALUES ('probes', 2, false, 'operator',
			'', now())`,
			says: "setting_change_reason_check"},
		"an entry that changes": {asOwner: true, sql: `UPDATE setting_change SET actor = 'operator'`,
			says: "kept as they are"},
		"a setting that goes": {asOwner: true, sql: `DELETE FROM setting`,
			says: "kept as they are|foreign key"},
		"another key": {sql: `UPDATE house_key SET sealed = decode(repeat('33', 40), 'hex')`,
			says: "forgotten once"},
		"a key that lasts": {sql: `INSERT INTO house_key (key_id, account_id, sealed, expires_at)
			SELECT gen_random_uuid(), account_id, sealed, clock_timestamp() + interval '32 days' FROM house_key`,
			says: "expires within 31 days"},
		"a key that is over": {sql: `INSERT INTO house_key (key_id, account_id, sealed, expires_at)
			SELECT gen_random_uuid(), account_id, sealed, clock_timestamp() FROM house_key`, says: "expires within 31 days"},
		"a key that goes": {asOwner: true, sql: `DELETE FROM house_key`, says: "kept as they are"},
	})
}

func TestTheDatabaseRefusesOtherCalibrations(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	key := ok(e.Stores[0].KeepStratum(t.Context(), calibratedStratum))(t)
	run, _, err := e.Stores[0].StartCalibration(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, e, map[string]attack{
		"a calibration of other bytes": {sql: `INSERT INTO calibration (calibration, stratum, family, run_id, body, penal)
			VALUES (decode(repeat('00', 32), 'hex'), $1, 'greedy', $2, 'body', true)`,
			says: "calibration_check", args: []any{key[:], run}},
		"a calibration of no run": {sql: `INSERT INTO calibration (calibration, stratum, family, run_id, body, penal)
			VALUES (sha256('body'), $1, 'greedy', gen_random_uuid(), 'body', true)`,
			says: "a run that goes on", args: []any{key[:]}},
		"references that are less than together": {sql: `UPDATE stratum SET apart = -1, compared_at = now()`,
			says: "stratum_apart_check"},
		"references that were never compared": {sql: `UPDATE stratum SET apart = 1`, says: "stratum_compared"},
		"a second run of a stratum": {sql: `INSERT INTO calibration_run (run_id, stratum) VALUES (gen_random_uuid(), $1)`,
			says: "calibration_run_one", args: []any{key[:]}},
		"a run that stays":    {sql: `UPDATE calibration_run SET reason = 'x'`, says: "ends once"},
		"a run for no reason": {sql: `UPDATE calibration_run SET state = 'abandoned'`, says: "calibration_run_reason"},
		"a stratum of other parts": {sql: `INSERT INTO stratum (stratum, model_id, files, class, engine, gpu)
			SELECT decode(repeat('00', 32), 'hex'), model_id, files, class, engine, gpu FROM stratum`, says: "stratum_parts"},
		"a calibration that begins as finished": {
			asOwner: true, says: "begins as running",
			sql: `INSERT INTO calibration_run (run_id, stratum, state) SELECT gen_random_uuid(), stratum, 'finished'
			FROM calibration_run`,
		},
	})
}

func TestTheDatabaseRefusesOtherBenchmarksAndPlans(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	benchmark := store.Run{ID: probe.RunID{1}, Offer: o, Basis: store.First, Body: []byte{1}, NextAt: storetest.Start}
	if err := e.Stores[0].StartRun(t.Context(), benchmark); err != nil {
		t.Fatal(err)
	}
	ok(e.Stores[0].PutHour(t.Context(), plan.Hour{Offer: o, Past: plan.Past{Hour: 9}}))(t)
	refused(t, e, map[string]attack{
		"a second benchmark": {sql: `INSERT INTO benchmark_run (run_id, provider_id, model_id, basis, body, next_at)
			SELECT gen_random_uuid(), provider_id, model_id, basis, body, next_at FROM benchmark_run`,
			says: "benchmark_run_one"},
		"a benchmark step that is skipped": {sql: `UPDATE benchmark_run SET revision = 3`, says: "does not follow"},
		"a benchmark that ends with nothing": {sql: `UPDATE benchmark_run SET revision = 2, state = 'passed'`,
			says: "benchmark_run_end"},
		"a benchmark that begins as passed": {
			asOwner: true, says: "begins as running",
			sql: `INSERT INTO benchmark_run (run_id, provider_id, model_id, basis, state, body, next_at)
			SELECT gen_random_uuid(), provider_id, model_id, basis, 'passed', body, next_at FROM benchmark_run`,
		},
		"a benchmark of another basis": {
			asOwner: true, sql: `UPDATE benchmark_run SET revision = 2, basis = 'asked'`, says: "what a run is of stays",
		},
		"a benchmark that ends ahead of time": {
			says: "ahead of time", sql: `UPDATE benchmark_run SET revision = 2, state = 'void', findings = '[]',
			ended_at = clock_timestamp() + interval '1 second'`,
		},
		"traffic of a part of an hour": {sql: `INSERT INTO traffic_hour SELECT '2026-11-21 12:30+00', provider_id,
			model_id, 1, 1, 0 FROM offering`, says: "traffic_hour_hour_check"},
		"more served than asked": {sql: `INSERT INTO traffic_hour SELECT '2026-11-21 12:00+00', provider_id, model_id, 1, 2,
			0 FROM offering`, says: "traffic_hour_check|traffic_hour_served"},
		"traffic of nobody": {sql: `INSERT INTO traffic_hour SELECT '2026-11-21 12:00+00', provider_id, model_id, 0, 0, 0
			FROM offering`, says: "traffic_hour_counts"},
		"an hour that is planned again": {sql: `UPDATE planned SET hour = hour`, says: "is planned once"},
		"a plan of another offer": {
			asOwner: true, sql: `UPDATE planned SET hour = hour + 1, model_id = 'x'`, says: "is planned once",
		},
		"a benchmark that goes": {asOwner: true, sql: `DELETE FROM benchmark_run`, says: "kept as they are"},
	})
}

func TestABenchmarkRunThatEndedStays(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	o := e.See(t, storetest.Provider(t))
	run := store.Run{ID: probe.RunID{1}, Offer: o, Basis: store.First, Body: []byte{1}, NextAt: storetest.Start}
	if err := e.Stores[0].StartRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	run.Revision, run.State = 1, store.RunVoid
	if err := e.Stores[0].StepRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	refused(t, e, map[string]attack{
		"a step more": {sql: `UPDATE benchmark_run SET revision = revision + 1`, says: "a run ends once"},
		"one that begins anew": {
			sql:  `UPDATE benchmark_run SET revision = revision + 1, state = 'running', findings = NULL, ended_at = NULL`,
			says: "a run ends once",
		},
	})
}

func TestEvidenceOfAnOpenPenaltyIsClearedByNobody(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	e.AllowPenalties(t)
	o := e.See(t, storetest.Provider(t))
	forge(t, e, o, "1", removal(o, 1))
	e.Pass(t, 91*24*time.Hour)
	refused(t, e, map[string]attack{
		"as the role": {sql: `UPDATE evidence SET sealed = NULL`, says: "evidence of a penalty is kept"},
		"as the owner": {asOwner: true, sql: `UPDATE evidence SET sealed = NULL`,
			says: "kept for 90 days|of a penalty is kept"},
	})
}

func TestTheRoleReadsAndWritesItsTablesAlone(t *testing.T) {
	t.Parallel()
	e := storetest.New(t)
	for _, sql := range []string{
		`CREATE TABLE mine (x int)`, `CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'`, `ALTER TABLE event
			DISABLE TRIGGER ALL`,
		`DROP TABLE probe`, `DELETE FROM standing`, `DELETE FROM evidence`, `TRUNCATE verdict`, `INSERT INTO setting
			VALUES ('probes', true, 1, now())`,
		`INSERT INTO probe_transition VALUES ('done', 'queued')`, `INSERT INTO level_transition VALUES ('normal',
			'penalty')`,
	} {
		_, err := e.Pool.Exec(context.Background(), sql)
		if !refusedByRights(err) {
			t.Errorf("%s: got the error %v, want a refusal", sql, err)
		}
	}
}

// refusedByRights reports whether the role has no right to do it.
func refusedByRights(err error) bool {
	return err != nil &&
		(strings.Contains(err.Error(), "permission denied") || strings.Contains(err.Error(), "must be owner"))
}
