package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/batch"
)

// selectUnbatched sums a provider's lines of some days. The days are a list, because then the index is
// read once for each day; with a range it would be read with the lines of all providers. Lines that the
// ledger overruled are few. What the ledger says takes their place.
const selectUnbatched = `WITH overruled AS (
		SELECT day, request_id FROM earning_correction WHERE day = ANY ($2)
		UNION SELECT day, request_id FROM earning_ruling WHERE day = ANY ($2))
	SELECT day, sum(amount)::bigint FROM (
		SELECT day, payout_nano_usd AS amount FROM earning_line WHERE day = ANY ($2) AND provider_id = $1
		UNION ALL
		SELECT l.day, -l.payout_nano_usd FROM overruled o
			JOIN earning_line l ON l.day = o.day AND l.request_id = o.request_id WHERE l.provider_id = $1
		UNION ALL
		SELECT e.day, e.payout_nano_usd FROM overruled o
			JOIN earning e ON e.day = o.day AND e.request_id = o.request_id WHERE e.provider_id = $1 AND e.settled) line
	GROUP BY day`

// byIndex makes a transaction read by indexes, however few rows the planner believes a table to have.
const byIndex = `SELECT set_config('enable_seqscan', 'off', true)`

// DaysEarned reads what a provider earned on the days of a period: from the statements of the batched
// days, which are one row a day, and from the lines of the other days. Of those it reads the last
// batch.PeriodDays alone, so that days that wait for a batch for long are no scan. It reads one snapshot of
// the database, so no day is read from both.
func (s Batches) DaysEarned(
	ctx context.Context, provider ids.ProviderID, first, last time.Time,
) (days []batch.DayParts, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		days = nil
		if _, err := tx.Exec(ctx, byIndex); err != nil {
			return fmt.Errorf("prepare the session: %w", err)
		}
		if days, err = statedDays(ctx, tx, provider, first, last); err != nil {
			return err
		}
		var through *time.Time
		if err := tx.QueryRow(ctx, `SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL`).
			Scan(&through); err != nil {
			return fmt.Errorf("read how far batches are: %w", err)
		}
		var open []time.Time
		oldest := last.AddDate(0, 0, 1-batch.PeriodDays)
		if oldest.Before(first) {
			oldest = first
		}
		for day := oldest; !day.After(last); day = day.AddDate(0, 0, 1) {
			if through == nil || day.After(*through) {
				open = append(open, day)
			}
		}
		rows, err := tx.Query(ctx, selectUnbatched, [16]byte(provider), open)
		if err != nil {
			return fmt.Errorf("sum the lines of a provider: %w", err)
		}
		var day time.Time
		var amount int64
		if _, err := pgx.ForEachRow(rows, []any{&day, &amount}, func() error {
			days = append(days, batch.DayParts{Day: day, Parts: batch.Parts{Unbatched: money.NanoUSD(amount)}})
			return nil
		}); err != nil {
			return fmt.Errorf("sum the lines of a provider: %w", err)
		}
		return nil
	})
	return days, err
}

func statedDays(
	ctx context.Context, tx pgx.Tx, provider ids.ProviderID, first, last time.Time,
) ([]batch.DayParts, error) {
	rows, err := tx.Query(ctx, `SELECT day, statement FROM batch_share
		WHERE provider_id = $1 AND day BETWEEN $2 AND $3 ORDER BY day`, [16]byte(provider), first, last)
	if err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	days, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d batch.DayParts, err error) {
		var statement []byte
		if err := row.Scan(&d.Day, &statement); err != nil {
			return d, err
		}
		d.Parts, err = batch.PartsOf(statement)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	return days, nil
}
