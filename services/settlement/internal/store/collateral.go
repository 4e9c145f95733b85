package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/collateral"
)

// Collateral keeps what the hub is told; it implements collateral.Store.
type Collateral struct{ *Store }

// ConfirmDevelopment implements collateral.Store. Rows are taken in one order, so that two
// processes that confirm the same providers do not wait for each other.
func (s Collateral) ConfirmDevelopment(ctx context.Context, providers []ids.ProviderID) error {
	list := make([][16]byte, len(providers))
	for i, id := range providers {
		list[i] = id
	}
	slices.SortFunc(list, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
	if _, err := s.pool.Exec(ctx, `
		INSERT INTO provider_collateral AS c (provider_id, confirmed, source)
		SELECT p, true, 'development' FROM unnest($1::uuid[]) AS p
		ON CONFLICT (provider_id) DO UPDATE SET confirmed = true, revision = c.revision + 1, told_at = NULL, tried_at = NULL
			WHERE NOT c.confirmed AND c.source = 'development'`, list); err != nil {
		return fmt.Errorf("confirm the collateral of %d providers: %w", len(providers), err)
	}
	return nil
}

// WithdrawDevelopment implements collateral.Store. Rows are taken in the same order.
func (s Collateral) WithdrawDevelopment(ctx context.Context) (int, error) {
	tag, err := s.pool.Exec(ctx, `
		WITH standing AS (
			SELECT provider_id FROM provider_collateral WHERE source = 'development' AND confirmed
			ORDER BY provider_id FOR UPDATE
		)
		UPDATE provider_collateral c SET confirmed = false, revision = c.revision + 1, told_at = NULL, tried_at = NULL
		FROM standing WHERE c.provider_id = standing.provider_id`)
	if err != nil {
		return 0, fmt.Errorf("withdraw development collateral: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// Pending implements collateral.Store.
func (s Collateral) Pending(ctx context.Context, pause time.Duration, limit int) ([]collateral.Fact, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT provider_id, confirmed, source, revision FROM provider_collateral
		WHERE told_at IS NULL AND (tried_at IS NULL OR tried_at <= clock_timestamp() - $1::interval)
		ORDER BY tried_at NULLS FIRST, provider_id LIMIT $2`, pause, limit)
	if err != nil {
		return nil, fmt.Errorf("read what the hub was not told: %w", err)
	}
	facts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f collateral.Fact, err error) {
		err = row.Scan(&f.ProviderID, &f.Confirmed, &f.Source, &f.Revision)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what the hub was not told: %w", err)
	}
	return facts, nil
}

// Tried implements collateral.Store.
func (s Collateral) Tried(ctx context.Context, f collateral.Fact, taken bool) error {
	if _, err := s.pool.Exec(ctx, `
		UPDATE provider_collateral SET tried_at = clock_timestamp(), told_at = CASE WHEN $3 THEN clock_timestamp() END
		WHERE provider_id = $1 AND revision = $2 AND told_at IS NULL`, f.ProviderID, f.Revision, taken); err != nil {
		return fmt.Errorf("record what the hub was told: %w", err)
	}
	return nil
}
