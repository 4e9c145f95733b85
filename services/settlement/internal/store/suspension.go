package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/collateral"
)

// PendingSuspensions implements collateral.Store.
func (s Collateral) PendingSuspensions(
	ctx context.Context, pause time.Duration, limit int,
) ([]collateral.Suspension, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT provider_id, cause, holds, revision FROM provider_suspension
		WHERE told_at IS NULL AND (tried_at IS NULL OR tried_at <= clock_timestamp() - $1::interval)
		ORDER BY tried_at NULLS FIRST, provider_id, cause LIMIT $2`, pause, limit)
	if err != nil {
		return nil, fmt.Errorf("read the suspensions that the hub was not told: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[collateral.Suspension])
	if err != nil {
		return nil, fmt.Errorf("read the suspensions that the hub was not told: %w", err)
	}
	return list, nil
}

// TriedSuspension implements collateral.Store.
func (s Collateral) TriedSuspension(ctx context.Context, told collateral.Suspension, taken bool) error {
	if _, err := s.pool.Exec(ctx, `
		UPDATE provider_suspension SET tried_at = clock_timestamp(), told_at = CASE WHEN $4 THEN clock_timestamp() END
		WHERE provider_id = $1 AND cause = $2 AND revision = $3 AND told_at IS NULL`,
		told.ProviderID, told.Cause, told.Revision, taken); err != nil {
		return fmt.Errorf("record what the hub was told: %w", err)
	}
	return nil
}
