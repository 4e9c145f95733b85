package store_test

import (
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/stats"
	"svc.internal/services/billing-ledger/internal/store"
)

// reported makes n reports of three models at five providers, the last one at a moment and the
// others apart from each other.
func (e *env) reported(t testing.TB, n int, last time.Time, apart time.Duration) {
	t.Helper()
	e.exec(t, `WITH r AS MATERIALIZED (SELECT n, gen_random_uuid() AS id, (ARRAY['a', 'b', 'c'])[1 + n % 3] AS model,
			('00000000-0000-7000-8000-00000000000' || 1 + n % 5)::uuid AS provider,
			(ARRAY['completed', 'completed', 'failed', 'client_gone', 'timeout', 'refused'])[1 + n % 6] AS outcome,
			$2::timestamptz - (n - 1) * $3::interval AS at FROM generate_series(1, $1::integer) AS n),
	h AS (INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
			max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate,
			payout_output_rate, rate_limit, rate_remaining, rate_reset_at, expires_at)
		SELECT id, gen_random_uuid(), gen_random_uuid(), model, 'payg', 0, 0, 0, false, gen_random_uuid(), 1, 1, 1, 1, 0, 0,
			now(), now() + interval '1 day' FROM r)
	INSERT INTO request_report (request_id, outcome, committed_attempt, provider_id, relayed_tokens, relayed_bytes,
		http_status, error_code, route_mode, requested_provider, fallback_reason, stream, attempts, first_content_ms,
		total_ms, recorded_at, metered_prompt, metered_completion)
	SELECT id, outcome, 1, provider, 20, 50, 200, '', 'auto', '', '', true, jsonb_build_array(jsonb_build_object(
			'attempt', 1, 'provider_id', provider, 'result', 'served')), 1 + n % 900, 2000, at, 7, 20 FROM r`,
		n, last, apart)
}

func (e *env) stats() store.Stats { return store.Stats{Store: e.store} }

// sumUp folds all reports in steps of some rows.
func (e *env) sumUp(t testing.TB, rows int) {
	t.Helper()
	upTo := scan[time.Time](t, e, `SELECT now()`)
	for {
		p, err := e.stats().Fold(t.Context(), upTo, rows)
		if err != nil {
			t.Fatal(err)
		}
		if !p.More {
			return
		}
	}
}

// wantPlainCount compares the sums of all spans with a count of the reports.
func (e *env) wantPlainCount(t testing.TB) {
	t.Helper()
	const counted = `SELECT s.span, date_bin(s.span * interval '1 minute', w.recorded_at, 'epoch') AS at, h.model_id,
			w.provider_id, count(*) AS requests,
			count(*) FILTER (WHERE w.outcome IN ('completed', 'failed', 'timeout')) AS judged,
			count(*) FILTER (WHERE w.outcome = 'completed') AS succeeded,
			sum(w.metered_prompt + w.metered_completion)::bigint AS tokens, count(*) AS timed
		FROM request_report w JOIN hold h USING (request_id) CROSS JOIN (VALUES (5), (60), (1440)) AS s (span)
		GROUP BY 1, 2, 3, 4`
	const summed = `SELECT span::integer, at, model_id, provider_id, requests, judged, succeeded, tokens,
			(SELECT sum(n) FROM unnest(ttft) AS n) AS timed FROM stats_sum`
	for name, query := range map[string]string{
		"counted and not summed": counted + ` EXCEPT ALL ` + summed,
		"summed and not counted": summed + ` EXCEPT ALL ` + counted,
	} {
		if n := scan[int64](t, e, `SELECT count(*) FROM (`+query+`) AS odd`); n != 0 {
			t.Errorf("%s: got %d sums, want 0", name, n)
		}
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM stats_sum`); n == 0 {
		t.Error("sums: got none, want some")
	}
}

// beginAt has the fold begin before the reports of a test.
func (e *env) beginAt(t testing.TB, at time.Time) {
	t.Helper()
	e.exec(t, `UPDATE stats_fold SET until_at = $1, last = '00000000-0000-0000-0000-000000000000'`, at)
}

func TestSumsAreThePlainCountOfReports(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`)
	e.beginAt(t, now.Add(-72*time.Hour))
	e.reported(t, 1000, now.Add(-time.Minute), 3*time.Minute)
	e.sumUp(t, 170)
	e.wantPlainCount(t)
	e.reported(t, 100, scan[time.Time](t, e, `SELECT now()`), 0)
	e.sumUp(t, 5000)
	e.wantPlainCount(t)
}

func TestReportsOfOneMomentAreFoldedInManySteps(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`)
	e.beginAt(t, now.Add(-time.Hour))
	e.reported(t, 200, now.Add(-time.Minute), 0)
	p, err := e.stats().Fold(t.Context(), now, 30)
	if err != nil {
		t.Fatal(err)
	}
	if p.Lines != 30 {
		t.Errorf("a step: got %d reports, want 30", p.Lines)
	}
	e.sumUp(t, 30)
	e.wantPlainCount(t)
}

func TestAFoldThatBreaksOffNeitherLosesNorDoublesAReport(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`)
	e.beginAt(t, now.Add(-time.Hour))
	e.reported(t, 100, now.Add(-time.Minute), time.Second)
	e.exec(t, `CREATE TRIGGER breaks BEFORE UPDATE ON stats_fold FOR EACH ROW EXECUTE FUNCTION refuse_change()`)
	if _, err := e.stats().Fold(t.Context(), now, 30); err == nil {
		t.Fatal("a step that breaks off behind its sums: got no error, want one")
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM stats_sum`); n != 0 {
		t.Errorf("sums of a step that broke off: got %d, want 0", n)
	}
	e.exec(t, `DROP TRIGGER breaks ON stats_fold`)
	e.sumUp(t, 30)
	e.wantPlainCount(t)
}

func TestTwoFoldersTakeTurns(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`)
	e.beginAt(t, now.Add(-time.Hour))
	e.reported(t, 600, now.Add(-time.Minute), time.Second)
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM stats_fold FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if p, err := e.stats().Fold(t.Context(), now, 30); err != nil {
		t.Errorf("while another folds: got the error %v, want none", err)
	} else if p.Lines != 0 {
		t.Errorf("while another folds: got %d reports, want 0", p.Lines)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for range 100 {
				if _, err := e.stats().Fold(t.Context(), now, 15); err != nil {
					t.Errorf("got the error %v, want none", err)
				}
			}
		})
	}
	wait.Wait()
	e.sumUp(t, 15)
	e.wantPlainCount(t)
}

func TestFiguresReadWholeHoursAndTheEndsOfADay(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`).UTC()
	e.beginAt(t, now.Add(-72*time.Hour))
	e.reported(t, 1000, now.Add(-time.Second), 3*time.Minute)
	e.sumUp(t, 5000)
	a, err := stats.NewCache(e.stats(), clock.System).Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	day := stats.Last(a.MadeAt, 24*time.Hour)
	for name, c := range map[string]struct {
		got int64
		of  stats.Window
	}{
		"the last day": {a.LastDay.Requests, day}, "the day before": {a.DayBefore, day.Before()},
		"the last hour": {a.LastHour, stats.Last(a.MadeAt, time.Hour)},
	} {
		want := scan[int64](t, e, `SELECT count(*) FROM request_report WHERE recorded_at >= $1 AND recorded_at < $2`,
			c.of.From, c.of.Until)
		if c.got != want {
			t.Errorf("%s: got %d requests, want %d", name, c.got, want)
		}
	}
	if len(a.Models) != 3 {
		t.Errorf("models: got %d, want 3", len(a.Models))
	}
	if len(a.Providers) != 5 {
		t.Errorf("providers: got %d, want 5", len(a.Providers))
	}
	today := a.MadeAt.UTC().Truncate(24 * time.Hour)
	want := scan[int64](t, e, `SELECT count(*) FROM request_report WHERE recorded_at >= $1 AND recorded_at < $2`,
		today.AddDate(0, 0, -1), today)
	if got := a.Days[stats.Days-2].Requests; got != want {
		t.Errorf("yesterday: got %d requests, want %d", got, want)
	}
}

func TestOldSumsArePrunedInBatches(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`)
	e.exec(t, `INSERT INTO stats_sum SELECT s.span, date_bin(s.span * interval '1 minute', now() - s.age, 'epoch'),
			'm', gen_random_uuid(), 0, 1, 1, 1, 0, 0, 5, '{}', '{}'
		FROM (VALUES (5, interval '47 hours'), (5, '50 hours'), (60, '34 days'), (60, '36 days'), (1440, '398 days'),
			(1440, '402 days')) AS s (span, age), generate_series(1, 3)`)
	for _, want := range []int{2, 1, 0} {
		n, err := e.store.PruneStats(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("pruned: got %d, want %d", n, want)
		}
	}
	for span, age := range map[stats.Span]time.Duration{
		stats.FiveMinutes: 48 * time.Hour, stats.Hour: 35 * 24 * time.Hour, stats.Day: 400 * 24 * time.Hour,
	} {
		left := scan[int64](t, e, `SELECT count(*) FROM stats_sum WHERE span = $1`, span)
		if left != 3 {
			t.Errorf("%d minutes: got %d sums left, want 3", span, left)
		}
		young := scan[int64](t, e, `SELECT count(*) FROM stats_sum WHERE span = $1 AND at > $2`, span, now.Add(-age))
		if young != 3 {
			t.Errorf("%d minutes: got %d young sums, want 3", span, young)
		}
	}
}

// BenchmarkFoldOfReports says how many reports a second are folded.
func BenchmarkFoldOfReports(b *testing.B) {
	e := setup(b, unlimited)
	now := scan[time.Time](b, e, `SELECT now()`)
	e.beginAt(b, now.Add(-time.Hour))
	const reports = 30_000
	e.reported(b, reports, now.Add(-time.Second), time.Millisecond)
	e.exec(b, `ANALYZE request_report; ANALYZE hold`)
	for b.Loop() {
		e.exec(b, `TRUNCATE stats_sum`)
		e.beginAt(b, now.Add(-time.Hour))
		e.sumUp(b, 5000)
	}
	b.ReportMetric(float64(reports*b.N)/b.Elapsed().Seconds(), "reports/s")
}
