package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/batch"
)

// Batches keeps sealed days and their batches.
type Batches struct{ *Store }

var _ batch.Store = Batches{}

// dayTimeout bounds each statement about a day of millions of lines.
const dayTimeout = 10 * time.Minute

// inDay runs a step of the life of a day. Only one process makes one at a time; the others find the work done.
func (s Batches) inDay(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('settlement.batch')),
			set_config('statement_timeout', $1, true)`, fmt.Sprint(dayTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("lock the days: %w", err)
		}
		return fn(tx)
	})
}

// rower is the part of a pool or a transaction that reads one row.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Place returns where the days stand; see batch.Store.
func (s Batches) Place(ctx context.Context, start time.Time) (batch.Place, error) {
	return place(ctx, s.pool, start)
}

func place(ctx context.Context, from rower, start time.Time) (p batch.Place, err error) {
	err = from.QueryRow(ctx, `SELECT day FROM batch_day WHERE committed_at IS NULL ORDER BY day LIMIT 1`).Scan(&p.Day)
	if err == nil {
		p.Collected = true
		return p, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("look where the days stand: %w", err)
	}
	var next *time.Time
	if err := from.QueryRow(ctx, `SELECT max(day) + 1 FROM batch_day`).Scan(&next); err != nil {
		return p, fmt.Errorf("look where the days stand: %w", err)
	}
	if next == nil && !start.IsZero() {
		next = &start
	}
	if next == nil {
		if err := from.QueryRow(ctx, `SELECT min(day) FROM earning_line`).Scan(&next); err != nil {
			return p, fmt.Errorf("look for the first day: %w", err)
		}
	}
	if next != nil {
		p.Day = next.UTC()
	}
	return p, nil
}

// Collect keeps the lines and balances of a day; see batch.Store.
func (s Batches) Collect(ctx context.Context, day time.Time, each func(batch.Page) (batch.Seal, error)) error {
	return s.inDay(ctx, func(tx pgx.Tx) error {
		switch at, err := place(ctx, tx, day); {
		case err != nil:
			return err
		case at.Collected || at.Day.After(day):
			return nil
		}
		page := &dayPage{tx: tx, day: day}
		seal, err := each(page)
		if err != nil {
			return err
		}
		if err := page.sum(ctx); err != nil {
			return err
		}
		crash.At("settlement.batch.before_collected")
		if _, err := tx.Exec(ctx, `INSERT INTO batch_day (day, seal, lines) VALUES ($1, $2, $3)`, day, seal[:],
			page.lines); err != nil {
			return fmt.Errorf("keep a day: %w", err)
		}
		return nil
	})
}

// dayPage adds pages to a day that is being collected; it implements batch.Page.
type dayPage struct {
	tx    pgx.Tx
	day   time.Time
	lines int64
}

// AddLines implements batch.Page.
func (p *dayPage) AddLines(ctx context.Context, lines []batch.Line) error {
	// The partition is made with the first lines, because a day without lines may be open, and the transaction
	// of an open day is undone.
	if p.lines == 0 && len(lines) > 0 {
		if _, err := p.tx.Exec(ctx, `SELECT ensure_batch_partition($1)`, p.day); err != nil {
			return fmt.Errorf("make a partition: %w", err)
		}
	}
	rows := pgx.CopyFromSlice(len(lines), func(i int) ([]any, error) {
		l := &lines[i]
		var requestDay any
		if !l.Request.IsZero() {
			requestDay = l.Request.Day()
		}
		return []any{l.Day, [16]byte(l.Provider), l.Number, string(l.Kind), l.At, requestDay, idOrNull(l.Request),
			idOrNull(l.Entry), l.Account, l.Month, int64(l.Amount), l.EntryKind, l.BusinessID}, nil
	})
	n, err := p.tx.CopyFrom(ctx, pgx.Identifier{"batch_line"}, []string{"day", "provider_id", "line", "kind", "at",
		"request_day", "request_id", "entry_id", "account", "month", "amount", "entry_kind", "business_id"}, rows)
	if err != nil {
		return fmt.Errorf("copy %d lines: %w", len(lines), err)
	}
	p.lines += n
	return nil
}

// idOrNull is an id in binary form; nil for zero.
func idOrNull[T ~[16]byte](id T) any {
	if id == (T{}) {
		return nil
	}
	return [16]byte(id)
}

// AddBalances implements batch.Page.
func (p *dayPage) AddBalances(ctx context.Context, balances []batch.Balance) error {
	n := len(balances)
	providers, accounts, months := make([][16]byte, n), make([]string, n), make([]string, n)
	moved, ends := make([]int64, n), make([]int64, n)
	for i, b := range balances {
		providers[i], accounts[i], months[i] = b.Provider, b.Account, b.Month
		moved[i], ends[i] = int64(b.Moved), int64(b.Balance)
	}
	const insert = `
WITH added AS (
	SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
		AS u(provider_id, account, month, moved, balance)
), accounts AS (
	INSERT INTO batch_account SELECT provider_id, account, month FROM added ON CONFLICT DO NOTHING
)
INSERT INTO batch_balance (day, provider_id, account, month, moved, balance)
SELECT $1, provider_id, account, month, moved, balance FROM added`
	if _, err := p.tx.Exec(ctx, insert, p.day, providers, accounts, months, moved, ends); err != nil {
		return fmt.Errorf("keep %d balances: %w", n, err)
	}
	return nil
}

// sumLines are the sums that settlement keeps of a day's lines beside the ledger's accounts.
const sumLines = `
WITH part AS (
	SELECT provider_id, 'held' AS account, month, CASE kind WHEN 'held' THEN amount ELSE -amount END AS amount
	FROM batch_line WHERE day = $1 AND kind IN ('held', 'released', 'held_refunded', 'forfeited', 'held_reversed')
	UNION ALL
	SELECT provider_id, CASE entry_kind WHEN 'earnings_batch' THEN 'batched' WHEN 'payout_confirmed' THEN 'paid'
			ELSE 'converted' END, '', -amount
	FROM batch_line WHERE day = $1 AND kind = 'entry' AND (entry_kind, account) IN (
		('earnings_batch', 'l:provider:accrued'), ('payout_confirmed', 'l:provider:payout_in_flight'),
		('earnings_credit', 'l:provider:payable'))
), moved AS (
	SELECT provider_id, account, month, sum(amount)::bigint AS moved FROM part GROUP BY provider_id, account, month
), accounts AS (
	INSERT INTO batch_account SELECT provider_id, account, month FROM moved ON CONFLICT DO NOTHING
)
INSERT INTO batch_balance (day, provider_id, account, month, moved, balance)
SELECT $1, provider_id, account, month, moved,
	moved + batch_balance_at(provider_id, account, month, $1::date - 1)
FROM moved`

func (p *dayPage) sum(ctx context.Context) error {
	// A provider whose lines move none of its accounts has an account still.
	const accounts = `INSERT INTO batch_account SELECT DISTINCT provider_id, account, month FROM batch_line
		WHERE day = $1 ON CONFLICT DO NOTHING`
	for _, sql := range []string{accounts, sumLines} {
		if _, err := p.tx.Exec(ctx, sql, p.day); err != nil {
			return fmt.Errorf("sum the lines of a day: %w", err)
		}
	}
	return nil
}
