package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/merkle"
)

// Allow lets a day go although too many of its lines were filled in from the ledger. The entry names the operator in
// ctx. Idempotent. It fails with transition_not_allowed for a day that does not wait.
func (s Batches) Allow(ctx context.Context, day time.Time, reason string) error {
	var known, stands bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM batch_day WHERE day = $1 AND committed_at IS NULL),
		EXISTS (SELECT FROM batch_allowance WHERE day = $1)`, day).Scan(&known, &stands); err != nil {
		return fmt.Errorf("look for a day that waits: %w", err)
	}
	if stands {
		return nil
	}
	if !known {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the day does not wait").On("day")
	}
	if _, err := s.pool.Exec(ctx, `INSERT INTO batch_allowance (day, actor, reason) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`, day, actor.OfOperator(ctx), reason); err != nil {
		return fmt.Errorf("let a day go: %w", err)
	}
	return nil
}

// Unblock lifts every block of a provider, and returns how many it lifted. The entries name the operator in ctx.
func (s Batches) Unblock(ctx context.Context, provider ids.ProviderID, reason string) (int64, error) {
	tag, err := s.pool.Exec(ctx, `INSERT INTO batch_unblock (day, provider_id, cause, actor, reason)
		SELECT b.day, b.provider_id, b.cause, $2, $3 FROM `+openBlocks+` AND b.provider_id = $1
		ON CONFLICT DO NOTHING`, [16]byte(provider), actor.OfOperator(ctx), reason)
	if err != nil {
		return 0, fmt.Errorf("lift the blocks of a provider: %w", err)
	}
	return tag.RowsAffected(), nil
}

// Days lists the days before one, newest first, with their batches.
func (s Batches) Days(ctx context.Context, before time.Time, limit int) ([]batch.DayView, error) {
	rows, err := s.pool.Query(ctx, `SELECT day, lines, coalesce(filled, 0), collected_at, committed_at FROM batch_day
		WHERE day < $1 ORDER BY day DESC LIMIT $2`, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list days: %w", err)
	}
	days, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d batch.DayView, err error) {
		var committed *time.Time
		err = row.Scan(&d.Day, &d.Lines, &d.Filled, &d.CollectedAt, &committed)
		if committed != nil {
			d.CommittedAt = *committed
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list days: %w", err)
	}
	for i := range days {
		if days[i].Batches, err = s.batchesOf(ctx, days[i].Day); err != nil {
			return nil, err
		}
	}
	return days, nil
}

func (s Batches) batchesOf(ctx context.Context, day time.Time) ([]batch.BatchView, error) {
	rows, err := s.pool.Query(ctx, `SELECT b.chain_id, b.root, b.total, b.shares,
			count(s.day) FILTER (WHERE s.posted IS NULL), count(s.day) FILTER (WHERE s.signature IS NULL)
		FROM batch b LEFT JOIN batch_share s USING (day, chain_id) WHERE b.day = $1
		GROUP BY b.day, b.chain_id ORDER BY b.chain_id`, day)
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b batch.BatchView, err error) {
		var root []byte
		if err = row.Scan(&b.Chain, &root, &b.Total, &b.Shares, &b.Unposted, &b.Unsigned); err == nil {
			b.Root = merkle.Hash(root)
		}
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	return list, nil
}

// Blocks lists the blocks that are not lifted, the oldest first.
func (s Batches) Blocks(ctx context.Context, limit int) ([]batch.Block, error) {
	rows, err := s.pool.Query(ctx, `SELECT b.day, b.provider_id, b.cause, b.differences, b.at FROM `+openBlocks+`
		ORDER BY b.day, b.provider_id, b.cause LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list blocks: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b batch.Block, err error) {
		var cause string
		err = row.Scan(&b.Day, &b.Provider, &cause, &b.Count, &b.At)
		b.Cause = batch.Cause(cause)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("list blocks: %w", err)
	}
	return list, nil
}
