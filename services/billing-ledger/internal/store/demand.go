package store

import (
	"context"
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

// Settled sums what was settled in a span of time; see demand.Store. It reads the index
// usage_settlement_recorded and then the rows, in the order in which they were written.
func (s *Store) Settled(ctx context.Context, from, until time.Time, limit int) (map[string]demand.Sum, error) {
	var sums map[string]demand.Sum
	err := reachable(pg.InTx(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx,
			`SELECT set_config('statement_timeout', $1, true), set_config('enable_seqscan', 'off', true)`,
			fmt.Sprint(demandTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("set the statement timeout: %w", err)
		}
		rows, err := tx.Query(ctx, sumSettled, from, until, from.AddDate(0, 0, -demandLate), until.AddDate(0, 0, 1), limit)
		if err != nil {
			return fmt.Errorf("sum usage: %w", err)
		}
		sums, err = collectSums(rows)
		return err
	}))
	return sums, err
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
