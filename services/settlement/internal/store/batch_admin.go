package store

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
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
