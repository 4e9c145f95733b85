package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/provider-hub/internal/provider"
)

// Active implements rpc.ActiveStore.
func (s *Store) Active(ctx context.Context, limit int) ([]provider.Shown, int, error) {
	rows, err := s.pool.Query(ctx, `SELECT provider_id, name, region, uptime_30d, count(*) OVER () FROM provider
		WHERE status = 'active' AND NOT reference AND NOT vendor ORDER BY active_since, provider_id LIMIT $1`, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("read active providers: %w", err)
	}
	total := 0
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p provider.Shown, err error) {
		err = row.Scan(&p.ID, &p.Name, &p.Region, &p.Uptime30d, &total)
		return p, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read active providers: %w", err)
	}
	return list, total, nil
}
