package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/demand"
)

const (
	// demandTimeout bounds the sum of a piece, for which no request waits.
	demandTimeout = 3 * time.Second
	// demandLate is how many days after the day of its id a request may be settled and
	// still be in demand. It keeps the partitions of older days out of the query.
	demandLate = 2
)

const sumSettled = `
SELECT model_id, count(*), coalesce(sum(prompt_tokens + completion_tokens) FILTER (WHERE unit = 0), 0)::bigint,
       sum(charged)::bigint, sum(payout)::bigint,
       coalesce(sum(extract(epoch FROM ended_at - dispatched_at) * 1000000)
           FILTER (WHERE ended_at >= dispatched_at), 0)::bigint,
       count(*) FILTER (WHERE ended_at >= dispatched_at)
FROM usage_settlement
WHERE settled_at >= $1 AND settled_at < $2 AND day >= $3 AND day <= $4
GROUP BY model_id ORDER BY count(*) DESC, model_id LIMIT $5`

const firstSettled = `
SELECT settled_at FROM usage_settlement
WHERE settled_at >= $1 AND day >= $2 ORDER BY settled_at LIMIT 1`

// FirstSettled returns the earliest time of settling at or after from, or the zero time if
// nothing was settled since; see demand.Store.
func (s *Store) FirstSettled(ctx context.Context, from time.Time) (time.Time, error) {
	var first time.Time
	err := s.demand(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, firstSettled, from, from.AddDate(0, 0, -demandLate)).Scan(&first)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("find the first request: %w", err)
		}
		return nil
	})
	return first, err
}

// Settled sums what was settled in a span of time; see demand.Store. It reads the index
// usage_settlement_recorded and then the rows, in the order in which they were written.
func (s *Store) Settled(ctx context.Context, from, until time.Time, limit int) (map[string]demand.Sum, error) {
	var sums map[string]demand.Sum
	err := s.demand(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sumSettled, from, until, from.AddDate(0, 0, -demandLate), until.AddDate(0, 0, 1), limit)
		if err != nil {
			return fmt.Errorf("sum usage: %w", err)
		}
		sums, err = collectSums(rows)
		return err
	})
	return sums, err
}

// demand reads in a transaction of bounded time, by indexes.
func (s *Store) demand(ctx context.Context, read func(pgx.Tx) error) error {
	return pg.InTx(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx,
			`SELECT set_config('statement_timeout', $1, true), set_config('enable_seqscan', 'off', true)`,
			fmt.Sprint(demandTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("set the statement timeout: %w", err)
		}
		return read(tx)
	})
}

func collectSums(rows pgx.Rows) (map[string]demand.Sum, error) {
	sums := map[string]demand.Sum{}
	var model string
	var s demand.Sum
	var charged, payout, micros int64
	_, err := pgx.ForEachRow(rows, []any{&model, &s.Requests, &s.Tokens, &charged, &payout, &micros, &s.Timed},
		func() error {
			s.Revenue, s.Payout, s.Latency = nano(charged), nano(payout), time.Duration(micros)*time.Microsecond
			sums[model] = s
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("sum usage: %w", err)
	}
	return sums, nil
}
