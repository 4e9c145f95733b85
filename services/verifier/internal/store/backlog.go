package store

import (
	"context"
	"fmt"
	"time"
)

// QueueState is what metrics say of the queue.
type QueueState struct {
	// Queued and Leased count probes that have no end, Due of them those whose time has come.
	Queued, Leased, Due int
	// Lag is how long the longest due probe has waited.
	Lag time.Duration
}

// Each state has an index of its own, so that the probes that have ended are not read.
const countQueue = `
SELECT w.n, l.n, w.due + l.due, greatest(interval '0', coalesce(now.at - least(w.first, l.first), interval '0'))
FROM (SELECT clock_timestamp() AS at) AS now,
	LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE next_at <= now.at) AS due, min(next_at) AS first
		FROM probe WHERE state = 'queued') AS w,
	LATERAL (SELECT count(*) AS n, count(*) FILTER (WHERE leased_until <= now.at) AS due, min(leased_until) AS first
		FROM probe WHERE state = 'leased') AS l`

// Queue counts the probes that have no end.
func (s *Store) Queue(ctx context.Context) (QueueState, error) {
	var q QueueState
	err := s.pool.QueryRow(ctx, countQueue).Scan(&q.Queued, &q.Leased, &q.Due, &q.Lag)
	if err != nil {
		return QueueState{}, fmt.Errorf("count the queue: %w", err)
	}
	return q, nil
}

// NextDue is how long it takes until a probe is due or a lease is over: 0 or less where some
// are. It reports false where no probe waits for either.
func (s *Store) NextDue(ctx context.Context) (wait time.Duration, waits bool, err error) {
	var next *time.Duration
	err = s.pool.QueryRow(ctx, `SELECT least((SELECT min(next_at) FROM probe WHERE state = 'queued'),
		(SELECT min(leased_until) FROM probe WHERE state = 'leased')) - clock_timestamp()`).Scan(&next)
	if err != nil {
		return 0, false, fmt.Errorf("find when a probe is due: %w", err)
	}
	if next == nil {
		return 0, false, nil
	}
	return *next, true, nil
}

// SpentNanoUSD is what the probes that were due since a time, and are not void, are
// expected to cost.
func (s *Store) SpentNanoUSD(ctx context.Context, since time.Time) (int64, error) {
	var spent int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(sum(cost_nano_usd), 0)::bigint FROM probe
		WHERE due_at >= $1 AND state <> 'void'`, since).Scan(&spent)
	if err != nil {
		return 0, fmt.Errorf("sum the cost of probes: %w", err)
	}
	return spent, nil
}
