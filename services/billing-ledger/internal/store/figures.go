package store

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/money"
)

// Figures are what an operator watches of the ledger. All replicas read the same figures.
type Figures struct {
	// OpenHolds is the number of open holds, Held what they set aside, and OldestHold the
	// age of the oldest.
	OpenHolds  int64
	Held       money.NanoUSD
	OldestHold time.Duration
	// Reviews is the number of requests whose usage is published from evidence until it
	// is settled.
	Reviews int64
	// KeptBytes is how much of their quota the kept answers take.
	KeptBytes int64
	// Overdue is the number of days that are not cleared although their retention is
	// over: they are not sealed, or a hold or a review of the first of them is open.
	Overdue int64
}

// Figures reads the figures from the indexes of open rows. Days are kept for retention
// days. Where no day was ever sealed, the first day is that which DueDay seals first.
func (s *Store) Figures(ctx context.Context, retention int) (Figures, error) {
	var f Figures
	var held int64
	var oldest float64
	err := s.pool.QueryRow(ctx, `SELECT count(*), coalesce(sum(amount), 0)::bigint,
			coalesce(extract(epoch FROM now() - min(admitted_at)), 0)::float8,
			(SELECT count(*) FROM orphan_review WHERE next_at IS NOT NULL),
			(SELECT coalesce(sum(bytes), 0)::bigint FROM kept.hour),
			greatest(0, coalesce((now() AT TIME ZONE 'UTC')::date - 1 - $1::integer
				- coalesce((SELECT max(day) FROM cleared_day), (SELECT min(day) - 1 FROM seal),
					least((SELECT min(created_at) FROM account), (SELECT min(at) FROM entry))::date - 1), 0))
		FROM hold WHERE state = 'open'`, retention).Scan(&f.OpenHolds, &held, &oldest, &f.Reviews, &f.KeptBytes, &f.Overdue)
	if err != nil {
		return Figures{}, fmt.Errorf("read the ledger's figures: %w", err)
	}
	f.Held, f.OldestHold = nano(held), time.Duration(oldest*float64(time.Second))
	return f, nil
}
