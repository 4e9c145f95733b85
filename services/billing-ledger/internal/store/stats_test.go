package store_test

import (
	"io/fs"
	"log/slog"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/stats"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// reported makes n reports of three models at five providers by seven accounts, the last one
// at a moment and the others apart from each other. Of each seventh, another provider failed
// first.
func (e *env) reported(t testing.TB, n int, last time.Time, apart time.Duration) {
	t.Helper()
	e.exec(t, `WITH r AS MATERIALIZED (SELECT n, gen_random_uuid() AS id, (ARRAY['a', 'b', 'c'])[1 + n / 5 % 3] AS model,
			('00000000-0000-7000-8000-00000000000' || 1 + n % 5)::uuid AS provider,
			('00000000-0000-7000-8000-00000000000' || 1 + (n + 1) % 5)::uuid AS other,
			('00000000-0000-7000-9000-00000000000' || 1 + n / 6 % 7)::uuid AS account,
			(ARRAY['completed', 'completed', 'failed', 'client_gone', 'timeout', 'refused'])[1 + n % 6] AS outcome,
			$2::timestamptz - (n - 1) * $3::interval AS at FROM generate_series(1, $1::integer) AS n),
	h AS (INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens,
			max_completion_tokens, pinned, price_version_id, input_rate, output_rate, payout_input_rate,
			payout_output_rate, rate_limit, rate_remaining, rate_reset_at, expires_at)
		SELECT id, account, gen_random_uuid(), model, 'payg', 0, 0, 0, false, gen_random_uuid(), 1, 1, 1, 1, 0, 0,
			now(), now() + interval '1 day' FROM r),
	a AS (SELECT id, CASE WHEN n % 7 = 0 THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'provider_id', other,
				'result', 'failed')) ELSE '[]' END AS before, CASE WHEN n % 7 = 0 THEN 2 ELSE 1 END AS number,
			CASE outcome WHEN 'completed' THEN 'served' ELSE outcome END AS result FROM r)
	INSERT INTO request_report (request_id, outcome, committed_attempt, provider_id, relayed_tokens, relayed_bytes,
		http_status, error_code, route_mode, requested_provider, fallback_reason, stream, attempts, first_content_ms,
		total_ms, recorded_at, metered_prompt, metered_completion)
	SELECT id, outcome, number, provider, 20, 50, 200, '', 'auto', '', '', true, before || jsonb_build_array(
			jsonb_build_object('attempt', number, 'provider_id', provider, 'result', result, 'first_content_ms', 1 + n % 90)),
		1 + n % 900, 2000, at, 7, 20 FROM r JOIN a USING (id)`,
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

// counted sums reports up by their subjects, as the fold should.
const counted = `WITH w AS MATERIALIZED (SELECT w.*, h.model_id, h.account_id, date_trunc('hour', w.recorded_at) AS hour
		FROM request_report w JOIN hold h USING (request_id)),
	tried AS MATERIALIZED (SELECT w.*, (a ->> 'provider_id')::uuid AS tried, a ->> 'result' AS result
		FROM w, jsonb_array_elements(w.attempts) AS a),
	zero (id) AS (VALUES ('00000000-0000-0000-0000-000000000000'::uuid)),
	used AS MATERIALIZED (
		SELECT hour, model_id, id AS provider_id, account_id, count(*) FILTER (WHERE outcome = 'completed') AS served,
			count(*) FILTER (WHERE outcome IN ('failed', 'timeout')) AS failed, 0 AS paid
		FROM w, zero GROUP BY 1, 2, 3, 4
		UNION ALL
		SELECT hour, '', tried, account_id, count(*) FILTER (WHERE result = 'served'),
			count(*) FILTER (WHERE result IN ('failed', 'timeout') AND outcome <> 'completed'),
			count(*) FILTER (WHERE result IN ('failed', 'timeout') AND outcome = 'completed')
		FROM tried GROUP BY 1, 2, 3, 4),
	judged AS MATERIALIZED (SELECT hour, model_id, provider_id,
		sum(served + least(served, failed) + paid)::bigint AS judged, sum(served)::bigint AS succeeded
		FROM used GROUP BY 1, 2, 3),
	asked AS MATERIALIZED (
		SELECT hour, model_id, id AS provider_id, count(*) AS requests,
			count(*) FILTER (WHERE jsonb_array_length(attempts) > 1) AS retried,
			sum(metered_prompt + metered_completion)::bigint AS tokens FROM w, zero GROUP BY 1, 2, 3
		UNION ALL
		SELECT hour, '', provider_id, count(*), count(*) FILTER (WHERE jsonb_array_length(attempts) > 1),
			sum(metered_prompt + metered_completion)::bigint FROM w GROUP BY 1, 3),
	hours AS (SELECT * FROM asked FULL JOIN judged USING (hour, model_id, provider_id)),
	plain AS (SELECT 60 AS span, hour AS at, model_id, provider_id, coalesce(requests, 0) AS requests,
			coalesce(judged, 0) AS judged, coalesce(succeeded, 0) AS succeeded, coalesce(retried, 0) AS retried,
			coalesce(tokens, 0) AS tokens FROM hours
		UNION ALL
		SELECT 1440, date_bin('1 day', hour, 'epoch'), '', id, sum(requests)::bigint, sum(judged)::bigint,
			sum(succeeded)::bigint, sum(retried)::bigint, sum(tokens)::bigint
			FROM hours, zero WHERE model_id <> '' GROUP BY 2, 4),
	fives AS (SELECT 5 AS span, date_bin('5 minutes', recorded_at, 'epoch') AS at, '', id, count(*) AS requests,
			count(*) FILTER (WHERE outcome = 'completed') AS succeeded, count(*) AS timed FROM w, zero GROUP BY 2, 4)`

// wantPlainCount compares the sums of all spans with a count of the reports. What is judged
// within an hour does not depend on the order, so five minutes are compared without it.
func (e *env) wantPlainCount(t testing.TB) {
	t.Helper()
	const plain = `SELECT * FROM plain WHERE requests + judged > 0`
	const summed = `SELECT span::integer, at, model_id, provider_id, requests, judged, succeeded, retried, tokens
		FROM stats_sum WHERE span <> 5`
	const fives = `SELECT * FROM fives`
	const used = `SELECT hour, model_id, provider_id, account_id, served, failed FROM used WHERE served + failed > 0`
	const kept = `SELECT at, model_id, provider_id, account_id, served, failed FROM stats_use`
	const summedFives = `SELECT span::integer, at, model_id, provider_id, requests, succeeded,
			(SELECT sum(n) FROM unnest(ttft) AS n)::bigint FROM stats_sum WHERE span = 5`
	for name, query := range map[string]string{
		"counted and not summed":               plain + ` EXCEPT ALL ` + summed,
		"summed and not counted":               summed + ` EXCEPT ALL ` + plain,
		"used and not kept":                    used + ` EXCEPT ALL ` + kept,
		"kept and not used":                    kept + ` EXCEPT ALL ` + used,
		"counted and not summed, five minutes": fives + ` EXCEPT ALL ` + summedFives,
		"summed and not counted, five minutes": summedFives + ` EXCEPT ALL ` + fives,
	} {
		if n := scan[int64](t, e, counted+` SELECT count(*) FROM (`+query+`) AS odd`); n != 0 {
			t.Errorf("%s: got %d sums, want 0", name, n)
		}
	}
	for _, span := range []stats.Span{stats.FiveMinutes, stats.Hour, stats.Day} {
		if n := scan[int64](t, e, `SELECT count(*) FROM stats_sum WHERE span = $1 AND judged > succeeded`, span); n == 0 {
			t.Errorf("sums of %d minutes with failures: got none, want some", span)
		}
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

// figures reads the figures.
func (e *env) figures(t testing.TB) *stats.Answer {
	t.Helper()
	cache := stats.NewCache(e.stats(), clock.System, slog.New(slog.DiscardHandler))
	if err := cache.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := cache.Answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFiguresOfTheServiceEndWithTheLastFiveMinutes(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`).UTC()
	e.beginAt(t, now.Add(-72*time.Hour))
	e.reported(t, 1000, now.Add(-time.Second), 3*time.Minute)
	e.sumUp(t, 5000)
	// The hour of now may be too young to have five accounts.
	e.exec(t, `INSERT INTO stats_use SELECT date_trunc('hour', until_at), 'a', '00000000-0000-0000-0000-000000000000',
		gen_random_uuid(), 1, 0 FROM stats_fold, generate_series(1, 5)`)
	a := e.figures(t)
	day, today := stats.Last(a.MadeAt, 24*time.Hour), a.MadeAt.UTC().Truncate(24*time.Hour)
	for name, c := range map[string]struct {
		got int64
		of  stats.Window
	}{
		"the last day": {a.LastDay.Requests, day}, "the day before": {*a.DayBefore, day.Before()},
		"the last hour": {*a.LastHour, stats.Last(a.MadeAt, time.Hour)},
		"yesterday":     {a.Days[stats.Days-2].Requests, stats.Window{From: today.AddDate(0, 0, -1), Until: today}},
	} {
		want := stats.Rounded(scan[int64](t, e,
			`SELECT count(*) FROM request_report WHERE recorded_at >= $1 AND recorded_at < $2`, c.of.From, c.of.Until))
		if c.got != want {
			t.Errorf("%s: got %d requests, want %d", name, c.got, want)
		}
	}
}

func TestFiguresOfModelsAndProvidersEndBeforeTheHour(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	hour := scan[time.Time](t, e, `SELECT date_trunc('hour', now())`).UTC()
	e.beginAt(t, hour.Add(-72*time.Hour))
	e.reported(t, 1000, hour.Add(-time.Second), 3*time.Minute)
	e.sumUp(t, 5000)
	before := e.figures(t)
	if len(before.Models) != 3 {
		t.Errorf("models: got %d, want 3", len(before.Models))
	}
	if len(before.Providers) != 5 {
		t.Errorf("providers: got %d, want 5", len(before.Providers))
	}
	want := stats.Rounded(scan[int64](t, e, `SELECT count(*) FROM request_report JOIN hold USING (request_id)
		WHERE model_id = $1 AND recorded_at >= $2`, before.Models[0].Model, hour.Add(-24*time.Hour)))
	if got := before.Models[0].Requests; got != want {
		t.Errorf("the first model: got %d requests, want %d", got, want)
	}
	e.reported(t, 1000, scan[time.Time](t, e, `SELECT greatest(now(), $1::timestamptz + interval '1 second')`, hour), 0)
	e.sumUp(t, 5000)
	after := e.figures(t)
	if before.LastDay.Requests == after.LastDay.Requests {
		t.Errorf("the service, a moment later: got %d requests still, want more", after.LastDay.Requests)
	}
	for i, m := range after.Models {
		if m.Requests != before.Models[i].Requests {
			t.Errorf("model %s, a moment later: got %d requests, want %d still", m.Model, m.Requests, before.Models[i].Requests)
		}
	}
	for i, p := range after.Providers {
		if p.Requests != before.Providers[i].Requests {
			t.Errorf("provider %s, a moment later: got %d requests, want %d still", p.Provider, p.Requests,
				before.Providers[i].Requests)
		}
	}
}

func TestFiguresOfFewAccountsAreWithheld(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	hour := scan[time.Time](t, e, `SELECT date_trunc('hour', now())`).UTC()
	last := hour // all reports are of one day at its end
	if hour.Hour() == 0 {
		last = hour.Add(-time.Hour)
	}
	e.beginAt(t, hour.Add(-72*time.Hour))
	e.reported(t, 600, last.Add(-time.Second), time.Minute)
	// Four accounts are served. Others are only refused, or were served too long ago.
	e.exec(t, `UPDATE hold h SET account_id = ('00000000-0000-7000-9000-00000000000'
			|| 1 + get_byte(uuid_send(h.request_id), 0) % 4)::uuid
		FROM request_report w WHERE w.request_id = h.request_id AND w.outcome = 'completed'`)
	e.sumUp(t, 5000)
	if a := e.figures(t); len(a.Models)+len(a.Providers) != 0 {
		t.Errorf("of four accounts: got %d models and %d providers, want none", len(a.Models), len(a.Providers))
	}
	e.wantService(t, "of four accounts", 0)
	e.exec(t, `INSERT INTO stats_use VALUES ($1, 'a', '00000000-0000-0000-0000-000000000000', gen_random_uuid(), 1, 0)`,
		hour.Add(-25*time.Hour))
	if a := e.figures(t); len(a.Models) != 0 {
		t.Errorf("of a fifth account, before the window: got %d models, want none", len(a.Models))
	}
	e.exec(t, `INSERT INTO stats_use VALUES ($1, 'a', '00000000-0000-0000-0000-000000000000', gen_random_uuid(), 1, 0)`,
		hour.Add(-24*time.Hour))
	a := e.figures(t)
	if len(a.Models) != 1 {
		t.Fatalf("of five accounts: got %d models, want 1", len(a.Models))
	}
	if got := a.Models[0].Model; got != "a" {
		t.Errorf("of five accounts: got the model %s, want a", got)
	}
	e.wantService(t, "of five accounts, one of them before the window", 0)
	e.exec(t, `INSERT INTO stats_use VALUES ($1, 'a', '00000000-0000-0000-0000-000000000000', gen_random_uuid(), 1, 0)`,
		hour.Add(-time.Hour))
	// One more report has its day counted again.
	e.reported(t, 1, scan[time.Time](t, e, `SELECT greatest(until_at, $1) FROM stats_fold`, last.Add(time.Microsecond)), 0)
	e.sumUp(t, 5000)
	e.wantService(t, "of five accounts", 600)
}

// wantService checks how many requests the service has, in the last 24 hours and in all days; 0 is for
// figures that are withheld. All reports are of the last 24 hours.
func (e *env) wantService(t testing.TB, name string, want int64) {
	t.Helper()
	a := e.figures(t)
	switch {
	case (a.LastDay != nil) != (want > 0):
		t.Errorf("%s: the last day is shown: got %t, want %t", name, a.LastDay != nil, want > 0)
	case want > 0 && a.LastDay.Requests != want:
		t.Errorf("%s: the last day: got %d requests, want %d", name, a.LastDay.Requests, want)
	}
	shown := int64(0)
	for _, d := range a.Days {
		if d.Figures != nil {
			shown += d.Requests
		}
	}
	if (shown > 0) != (want > 0) {
		t.Errorf("%s: days with requests: got %d requests, want some: %t", name, shown, want > 0)
	}
}

func TestOnlyWhoPaidIsAnAccountOfFigures(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]string{
		"at price zero": `UPDATE hold SET input_rate = 0, output_rate = 0, payout_input_rate = 0, payout_output_rate = 0`,
		"the playground's": `WITH a AS (UPDATE hold SET account_id = (SELECT account_id FROM playground_account)
			WHERE account_id = '00000000-0000-7000-9000-000000000001') SELECT`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := setup(t, unlimited)
			account := e.consumer(t, money.USD).account
			e.exec(t, `INSERT INTO playground_account (account_id) VALUES ($1)`, [16]byte(account))
			hour := scan[time.Time](t, e, `SELECT date_trunc('hour', now())`).UTC()
			e.beginAt(t, hour.Add(-72*time.Hour))
			e.reported(t, 600, hour.Add(-time.Second), time.Minute)
			e.exec(t, `UPDATE hold SET account_id = ('00000000-0000-7000-9000-00000000000'
				|| 1 + get_byte(uuid_send(request_id), 0) % 5)::uuid`)
			e.exec(t, free)
			e.sumUp(t, 5000)
			e.wantService(t, name, 0)
			if a := e.figures(t); len(a.Models)+len(a.Providers) != 0 {
				t.Errorf("got %d models and %d providers, want none", len(a.Models), len(a.Providers))
			}
		})
	}
}

// TestPromptsAreNoOtherAttempts takes reports as gateways send them, of requests that are
// admitted, served and settled.
func TestPromptsAreNoOtherAttempts(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.beginAt(t, scan[time.Time](t, e, `SELECT now()`))
	c := e.consumer(t, money.USD)
	prompts := []hold.Reservation{e.reservation(t, c, 10), e.reservation(t, c, 10), e.reservation(t, c, 10)}
	first, second := e.reservation(t, c, 10), e.reservation(t, c, 10)
	second.Model = "acme/other"
	e.admit(t, append(prompts, first, second)...)
	report := func(r, next hold.Reservation) hold.RequestReport {
		d := e.served(t, r, 10)
		e.settle(t, usage.Settled, d)
		return hold.RequestReport{Request: r.Request, Outcome: "completed", CommittedAttempt: 1, RelayedTokens: 10,
			HTTPStatus: 200, Stream: true, FirstContentMS: 900, TotalMS: 2000, ContinuedAs: next.Request,
			Attempts: []hold.Attempt{{Attempt: 1, ProviderID: d.Event.Provider.String(), Result: "served",
				LatencyMS: 1500, FirstContentMS: 300, ContentMS: 1000, ClientMS: 10}}}
	}
	e.conclude(t, report(prompts[0], prompts[1]), report(prompts[1], prompts[2]), report(prompts[2], hold.Reservation{}),
		report(second, hold.Reservation{}))
	failed := hold.RequestReport{Request: first.Request, Outcome: "failed", HTTPStatus: 502, ContinuedAs: second.Request,
		Attempts: []hold.Attempt{{Attempt: 1, ProviderID: ids.ProviderID{1}.String(), Result: "failed"}}}
	if _, _, err := e.store.Conclude(t.Context(), []hold.RequestReport{failed}); err != nil {
		t.Fatal(err)
	}
	e.sumUp(t, 2)
	for name, c := range map[string]struct {
		where               string
		requests, retried   int64
		judged, firstBucket int64
	}{
		"the model":   {"model_id = 'acme/large'", 4, 1, 4, 3},
		"the other":   {"model_id = 'acme/other'", 1, 0, 1, 1},
		"the service": {"span = 1440", 5, 1, 5, 4},
	} {
		var requests, retried, judged, timed int64
		if err := e.owner.QueryRow(t.Context(), `SELECT requests, retried, judged,
				coalesce((SELECT sum(n) FROM unnest(ttft) AS n), 0) FROM stats_sum WHERE `+c.where).
			Scan(&requests, &retried, &judged, &timed); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if requests != c.requests {
			t.Errorf("%s: got %d requests, want %d", name, requests, c.requests)
		}
		if retried != c.retried {
			t.Errorf("%s: got %d retried, want %d", name, retried, c.retried)
		}
		if judged != c.judged {
			t.Errorf("%s: got %d judged, want %d", name, judged, c.judged)
		}
		if timed != c.firstBucket {
			t.Errorf("%s: got %d times to first content, want %d", name, timed, c.firstBucket)
		}
	}
	// The times of an attempt come through: 300 ms are in bucket 65 of 160, of base 2^(1/8).
	if n := scan[int64](t, e, `SELECT count(*) FROM stats_sum WHERE provider_id <> '00000000-0000-0000-0000-000000000000'
		AND ttft[66] = 1`); n != 4 {
		t.Errorf("providers with a first content after 300 ms: got %d, want 4", n)
	}
	e.sound(t)
}

// TestTheIndexOfReportsIsMadeAgainAfterABreak has the migration begin where it was broken off.
// The database forgets it and all later migrations, and is given this migration alone.
func TestTheIndexOfReportsIsMadeAgainAfterABreak(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.exec(t, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'request_report_recorded'::regclass`)
	e.exec(t, `DELETE FROM schema_migrations WHERE version_id >= 48`)
	const name = "00048_stats_index.sql"
	text, err := fs.ReadFile(store.Migrations, "migrations/"+name)
	if err != nil {
		t.Fatal(err)
	}
	alone, url := fstest.MapFS{name: {Data: text}}, e.owner.Config().ConnConfig.ConnString()
	if err := pg.Migrate(t.Context(), url, store.Schema, store.Role, alone); err != nil {
		t.Fatal(err)
	}
	if !scan[bool](t, e, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'request_report_recorded'::regclass`) {
		t.Error("the index is valid: got false, want true")
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM schema_migrations WHERE version_id = 48`); n != 1 {
		t.Errorf("rows of the migration: got %d, want 1", n)
	}
}

func TestOldSumsArePrunedInBatches(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	now := scan[time.Time](t, e, `SELECT now()`)
	e.exec(t, `INSERT INTO stats_sum SELECT s.span, date_bin(s.span * interval '1 minute', now() - s.age, 'epoch')
			- n * s.span * interval '1 minute', CASE s.span WHEN 60 THEN 'm' ELSE '' END,
			'00000000-0000-0000-0000-000000000000', 1, 1, 1, 0, 5, '{}', '{}'
		FROM (VALUES (5, interval '46 hours'), (5, '50 hours'), (60, '40 hours'), (60, '51 hours'), (1440, '390 days'),
			(1440, '402 days')) AS s (span, age), generate_series(1, 3) AS n`)
	e.exec(t, `INSERT INTO stats_use SELECT date_trunc('hour', now() - age), '', gen_random_uuid(), gen_random_uuid(), 1, 0
		FROM (VALUES (interval '46 hours'), ('51 hours')) AS s (age), generate_series(1, 3)`)
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
		stats.FiveMinutes: 48 * time.Hour, stats.Hour: 48 * time.Hour, stats.Day: 400 * 24 * time.Hour,
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
	if n := scan[int64](t, e, `SELECT count(*) FROM stats_use WHERE at > $1`, now.Add(-48*time.Hour)); n != 3 {
		t.Errorf("young uses: got %d left, want 3", n)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM stats_use`); n != 3 {
		t.Errorf("uses: got %d left, want 3", n)
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
		e.exec(b, `TRUNCATE stats_sum, stats_use`)
		e.beginAt(b, now.Add(-time.Hour))
		e.sumUp(b, 5000)
	}
	b.ReportMetric(float64(reports*b.N)/b.Elapsed().Seconds(), "reports/s")
}
