package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/accrual"
)

// Accruals sums what providers were credited by day and provider, after a
// place in that order; see accrual.Store. Orphan work counts as well: its
// provider was credited by an entry instead of the line.
func (s *Store) Accruals(ctx context.Context, after accrual.Place, limit int) ([]accrual.Accrual, error) {
	rows, err := s.pool.Query(ctx, `SELECT day, provider_id, sum(payout)::bigint, count(*)
		FROM usage_settlement
		WHERE day >= $1 AND (day, provider_id) > ($1, $2)
		GROUP BY day, provider_id ORDER BY day, provider_id LIMIT $3`,
		after.Day, [16]byte(after.Provider), limit)
	if err != nil {
		return nil, reachable(fmt.Errorf("sum accruals: %w", err))
	}
	var (
		out              []accrual.Accrual
		day              time.Time
		provider         [16]byte
		payout, requests int64
	)
	_, err = pgx.ForEachRow(rows, []any{&day, &provider, &payout, &requests}, func() error {
		out = append(out, accrual.Accrual{
			Place:  accrual.Place{Day: day, Provider: ids.ProviderID(provider)},
			Payout: nano(payout), Requests: requests,
		})
		return nil
	})
	if err != nil {
		return nil, reachable(fmt.Errorf("sum accruals: %w", err))
	}
	return out, nil
}
