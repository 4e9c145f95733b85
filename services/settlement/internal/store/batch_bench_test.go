package store_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/store"
)

// heap samples the heap that is in use until it is stopped, and returns its peak in MiB.
func heap() (stop func() float64) {
	var peak atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for range clock.Every(benchContext(done), 50*time.Millisecond) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
		}
	}()
	return func() float64 {
		close(done)
		<-ended
		return float64(peak.Load()) / (1 << 20)
	}
}

func benchContext(done chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-done
		cancel()
	}()
	return ctx
}

// wide is a ledger whose first day has many requests of many providers, which it makes page by page.
type wide struct {
	*books
	lines, providers int64
}

func (w wide) provider(i int64) (id ids.ProviderID) {
	binary.BigEndian.PutUint64(id[8:], uint64(i%w.providers)+1)
	id[6], id[8] = 0x70, 0x80
	return id
}

func (w wide) request(i int64) (id ids.RequestID) {
	ms := uint64(firstDay.UnixMilli())
	for b := range 6 {
		id[b] = byte(ms >> (40 - 8*b))
	}
	binary.BigEndian.PutUint64(id[8:], uint64(i))
	id[6], id[8] = 0x70, 0x80
	return id
}

func (w wide) Changes(_ context.Context, day time.Time, token string) ([]batch.Change, string, batch.Seal, error) {
	if !day.Equal(firstDay) {
		return nil, "", batch.Seal{}, batch.ErrDayOpen
	}
	from, _ := strconv.ParseInt(token, 10, 64)
	to := min(from+batch.PageSize, w.lines)
	page := make([]batch.Change, 0, to-from)
	for i := from; i < to; i++ {
		page = append(page, batch.Change{Kind: batch.Payg, At: day.Add(time.Duration(i) * time.Microsecond),
			Request: w.request(i), Provider: w.provider(i), Account: batch.Accrued, Amount: 1_000})
	}
	if to == w.lines {
		return page, "", batch.Seal{}, nil
	}
	return page, strconv.FormatInt(to, 10), batch.Seal{}, nil
}

func (w wide) Balances(_ context.Context, _ time.Time, _ string) ([]batch.Balance, string, error) {
	list := make([]batch.Balance, w.providers)
	for i := range list {
		n := w.lines/w.providers + min(1, max(0, w.lines%w.providers-int64(i)))
		list[i] = batch.Balance{Provider: w.provider(int64(i)), Account: batch.Accrued, Moved: money.NanoUSD(n * 1_000),
			Balance: money.NanoUSD(n * 1_000)}
	}
	return list, "", nil
}

// BenchmarkBatch collects, witnesses and commits a day: of 10^6 lines of 1,000 providers, and in short of 20,000.
func BenchmarkBatch(b *testing.B) {
	lines := int64(1_000_000)
	if testing.Short() {
		lines = 20_000
	}
	for b.Loop() {
		b.StopTimer()
		pool := pgtest.Pool(b, store.Schema, store.Role, store.Migrations)
		w := wide{newBooks(firstDay), lines, 1_000}
		ownLines(b, pgtest.Owner(b, pool).Config().ConnString(), w)
		closer := &batch.Closer{Store: store.Batches{Store: store.New(pool)}, Ledger: w, Payees: batch.NoPayees{},
			Clock: clock.System, Log: slog.New(slog.DiscardHandler)}
		runtime.GC()
		peak := heap()
		b.StartTimer()
		began := time.Now()
		outcome, err := closer.Pass(b.Context(), func(time.Time) error { return nil })
		took := time.Since(began)
		b.StopTimer()
		if err != nil {
			b.Fatalf("got the error %v, want none", err)
		}
		if outcome != batch.Committed {
			b.Fatalf("got %s, want a committed day", outcome)
		}
		b.ReportMetric(float64(lines)/took.Seconds(), "lines/s")
		b.ReportMetric(peak(), "MiB-heap")
		var shares int64
		if err := pool.QueryRow(b.Context(), `SELECT count(*) FROM batch_share WHERE amount > 0`).Scan(&shares); err != nil {
			b.Fatal(err)
		}
		if shares != w.providers {
			b.Errorf("shares: got %d, want %d", shares, w.providers)
		}
		b.StartTimer()
	}
}

// ownLines are settlement's own lines of all requests.
func ownLines(b *testing.B, url string, w wide) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	var i int64
	_, err = conn.CopyFrom(b.Context(), pgx.Identifier{store.Schema, "earning_line"}, []string{"day", "request_id",
		"provider_id", "attempt", "model_id", "price_version_id", "prompt_tokens", "completion_tokens", "payout_nano_usd"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if i == w.lines {
				return nil, nil
			}
			i++
			return []any{firstDay, [16]byte(w.request(i - 1)), [16]byte(w.provider(i - 1)), 1, "m",
				[16]byte(w.provider(i - 1)), int64(1), int64(1), int64(1_000)}, nil
		}))
	if err != nil {
		b.Fatal(err)
	}
	for _, sql := range []string{`SET statement_timeout = 0`, `ANALYZE ` + store.Schema + `.earning_line`} {
		if _, err := conn.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExport streams the CSV of a provider's day: of 10^7 rows, and in short of 50,000.
func BenchmarkExport(b *testing.B) {
	rows := int64(10_000_000)
	if testing.Short() {
		rows = 50_000
	}
	pool := pgtest.Pool(b, store.Schema, store.Role, store.Migrations)
	w := wide{newBooks(firstDay), rows, 1}
	owner := pgtest.Owner(b, pool)
	for _, sql := range []string{
		`SELECT settlement.ensure_batch_partition('2026-03-01')`,
		`SET statement_timeout = 0; INSERT INTO settlement.batch_line
			SELECT '2026-03-01', '` + w.provider(0).String() + `', n, 'payg',
			'2026-03-01'::timestamptz + n * interval '1 millisecond', '2026-03-01', gen_random_uuid(), NULL,
			'l:provider:accrued', '', 1000, '', '' FROM generate_series(1, ` + strconv.FormatInt(rows, 10) + `) n`,
		`SET session_replication_role = replica; INSERT INTO settlement.batch_share (day, chain_id, index, provider_id,
			beneficiary, earned, given, blocked, amount, lines, csv, statement, summary) VALUES ('2026-03-01', 8453, 0, '` +
			w.provider(0).String() + `', decode(repeat('00', 20), 'hex'), 0, 0, false, 0, 1, decode(repeat('00', 32), 'hex'),
			'{}', decode(repeat('00', 32), 'hex'))`,
	} {
		if _, err := owner.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	st := store.Batches{Store: store.New(pool)}
	for b.Loop() {
		runtime.GC()
		peak, began := heap(), time.Now()
		var first time.Duration
		var got int64
		if err := batch.Export(b.Context(), st, w.provider(0), firstDay, firstDay, func(_ []byte, n int64) error {
			if first == 0 && n > 0 { // The header comes before any row is read.
				first = time.Since(began)
			}
			got = n
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		if got != rows {
			b.Errorf("rows: got %d, want %d", got, rows)
		}
		b.ReportMetric(first.Seconds()*1_000, "ms-first-row")
		b.ReportMetric(float64(rows)/time.Since(began).Seconds(), "rows/s")
		b.ReportMetric(peak(), "MiB-heap")
	}
}
