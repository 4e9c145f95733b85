package store_test

import (
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/passbook"
)

// The accounts of the benchmark: one with many lines over a year and many series, as the
// largest consumer may have. In short it has few.
const (
	benchLines      = 10_000_000
	benchLinesShort = 50_000
	benchSeries     = 200
	benchDays       = 365
)

// benchFrom is the first day of the benchmark's lines.
var benchFrom = time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)

// wealthy is an account with so many lines, of which the last is in the last hour of the
// year. They are made as the fold makes them.
func (e *env) wealthy(b *testing.B, lines int) (c consumer, key ids.KeyID) {
	b.Helper()
	c = e.consumer(b, money.USD)
	for _, sql := range []string{
		`INSERT INTO usage_series (account_id, key_id, model_id, provider_id, source, unit)
			SELECT $1, ('00000000-0000-7000-8000-' || lpad(to_hex(n % 10), 12, '0'))::uuid, 'acme/model-' || n % 20,
				('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'payg', 0
			FROM generate_series(1, ` + strconv.Itoa(benchSeries) + `) n`,
		`INSERT INTO passbook_line SELECT $1,
				'2025-03-01'::timestamptz + n * (interval '365 days' / ` + strconv.Itoa(lines) + `), 1,
				'usage', gen_random_uuid(), -1000, 1000000000000 - n * 1000,
				s.first + n % ` + strconv.Itoa(benchSeries) + `, 10, 10, 1000
			FROM generate_series(0::bigint, ` + strconv.Itoa(lines-1) + `) n, (SELECT min(id) AS first FROM usage_series) s`,
		`INSERT INTO usage_day SELECT series_id, (at AT TIME ZONE 'UTC')::date, count(*), sum(10), sum(10), sum(1000), 0
			FROM passbook_line WHERE account_id = $1 AND kind = 'usage' GROUP BY 1, 2`,
		`ANALYZE passbook_line, usage_day, usage_series`,
	} {
		conn, err := e.owner.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		args := []any{[16]byte(c.account)}
		if sql[0] != 'I' {
			args = nil
		}
		if _, err := conn.Exec(b.Context(), `SET statement_timeout = 0`); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Exec(b.Context(), sql, args...); err != nil {
			b.Fatal(err)
		}
		conn.Release()
	}
	return c, ids.KeyID(scan[[16]byte](b, e, `SELECT key_id FROM usage_series WHERE account_id = $1 LIMIT 1`,
		[16]byte(c.account)))
}

// inUse is the heap in MiB.
func inUse() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64()) / (1 << 20)
}

// took is the median time of nine calls, in ms.
func took(b *testing.B, call func() error) float64 {
	b.Helper()
	var all []float64
	for range 9 {
		began := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(began).Seconds()*1_000)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// linesToRead is how many lines the account has: BENCH_LINES, where that is set.
func linesToRead(b *testing.B) int {
	b.Helper()
	if testing.Short() {
		return benchLinesShort
	}
	text := os.Getenv("BENCH_LINES")
	if text == "" {
		return benchLines
	}
	lines, err := strconv.Atoi(text)
	if err != nil || lines < benchLinesShort {
		b.Fatalf("BENCH_LINES: got %q, want a number from %d on", text, benchLinesShort)
	}
	return lines
}

// BenchmarkPassbook reads and exports what one account has: 10^7 lines, or BENCH_LINES, and in
// short 50,000.
func BenchmarkPassbook(b *testing.B) {
	lines := linesToRead(b)
	e := setup(b, unlimited)
	began := time.Now()
	c, key := e.wealthy(b, lines)
	b.Logf("%s: %d lines made in %s", time.Now().UTC().Format(time.DateOnly), lines, time.Since(began).Round(time.Second))
	year := passbook.Period{From: benchFrom, To: benchFrom.AddDate(0, 0, benchDays)}
	p := e.passbook()
	for b.Loop() {
		page := func(at time.Time) func() error {
			return func() error {
				_, err := p.Lines(b.Context(), c.account, passbook.Filter{Period: year}, passbook.Walk{Limit: 100,
					Behind: &passbook.Place{At: at}})
				return err
			}
		}
		top := took(b, page(year.To))
		deep := took(b, page(benchFrom.Add(24*time.Hour)))
		b.ReportMetric(top, "ms-page")
		b.ReportMetric(deep/top, "deepest/newest-page")
		b.ReportMetric(took(b, func() error {
			_, err := p.Served(b.Context(), c.account, passbook.UsageFilter{Period: year, Key: key}, passbook.Walk{Limit: 100})
			return err
		}), "ms-page-of-key")
		b.ReportMetric(took(b, func() error {
			_, _, _, err := p.Sums(b.Context(), c.account, passbook.UsageFilter{Period: year}, passbook.ByModel)
			return err
		}), "ms-year-by-model")
		b.ReportMetric(took(b, func() error {
			_, err := p.Standing(b.Context(), c.account)
			return err
		}), "ms-balance")
		e.benchExport(b, c, year, lines)
	}
}

// benchExport measures a CSV of all lines: the first row, rows a second, and the largest heap.
func (e *env) benchExport(b *testing.B, c consumer, year passbook.Period, lines int) {
	b.Helper()
	runtime.GC()
	before, largest := inUse(), 0.0
	began := time.Now()
	var first time.Duration
	var got int64
	err := passbook.ExportServed(b.Context(), e.passbook(), c.account, passbook.UsageFilter{Period: year},
		func(_ []byte, n int64) error {
			if first == 0 && n > 0 { // the header comes before any row is read
				first = time.Since(began)
			}
			got, largest = n, max(largest, inUse())
			return nil
		})
	if err != nil {
		b.Fatal(err)
	}
	if got != int64(lines) {
		b.Errorf("rows: got %d, want %d", got, lines)
	}
	b.ReportMetric(first.Seconds()*1_000, "ms-first-row")
	b.ReportMetric(float64(lines)/time.Since(began).Seconds(), "rows/s")
	b.ReportMetric(largest-before, "MiB-heap")
}

// BenchmarkFold makes the lines of settled requests of 100 accounts: 200,000, and in short
// 10,000.
func BenchmarkFold(b *testing.B) {
	lines := 200_000
	if testing.Short() {
		lines = 10_000
	}
	e := setup(b, unlimited)
	first := e.reservation(b, e.consumer(b, money.USD), 1)
	e.serve(b, first, 1)
	e.exec(b, `SET LOCAL statement_timeout = 0; INSERT INTO usage_settlement (day, request_id, account_id, key_id,
			provider_id, hub_id, attempt, epoch, model_id, price_version_id, input_rate, output_rate, payout_input_rate,
			payout_output_rate, prompt_tokens, completion_tokens, list_price, payout, charged, shortfall, source, ending,
			claim_state, claimed_prompt, claimed_completion, recounted_completion, delivered_bytes, estimated_prompt, route_mode,
			requested_provider, fallback_reason, payload_hash, first_content_ms)
		SELECT day, (left(request_id::text, 14) || '7' || substr(md5(n::text), 1, 3) || '-8' || substr(md5(n::text), 4, 3)
				|| '-' || substr(md5(n::text), 7, 12))::uuid,
			('00000000-0000-7000-8000-' || lpad(to_hex(n % 100), 12, '0'))::uuid, key_id, provider_id, hub_id, attempt, epoch,
			model_id, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, prompt_tokens,
			completion_tokens, list_price, payout, charged, shortfall, source, ending, claim_state, claimed_prompt,
			claimed_completion, recounted_completion, delivered_bytes, estimated_prompt, route_mode, requested_provider,
			fallback_reason, payload_hash, first_content_ms
		FROM usage_settlement, generate_series(1, `+strconv.Itoa(lines)+`) n`)
	e.exec(b, `UPDATE usage_settlement SET settled_at = settled_at - random() * interval '1 minute'`)
	e.exec(b, `UPDATE passbook_fold SET begun_at = begun_at - interval '1 hour', until_at = until_at - interval '1 hour'`)
	for b.Loop() {
		began := time.Now()
		e.foldBy(b, 5_000)
		b.ReportMetric(float64(lines)/time.Since(began).Seconds(), "lines/s")
	}
}
