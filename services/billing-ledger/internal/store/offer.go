package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Offers reads the plans that are sold; see plan.OfferStore. A plan without a limit is sold too.
func (s *Store) Offers(ctx context.Context, limit int) ([]plan.Offer, error) {
	rows, err := s.pool.Query(ctx, `SELECT p.plan_id, p.cents, coalesce(l.kind, ''), coalesce(l.period, ''),
			coalesce(l.cap, 0), coalesce(l.tiers, '{}'), coalesce(l.draws, l.tiers, '{}')
		FROM (SELECT plan_id, cents FROM plan_price ORDER BY cents, plan_id LIMIT $1) p
		LEFT JOIN plan_limit l ON l.plan_id = p.plan_id AND l.enabled
		ORDER BY p.cents, p.plan_id, l.kind, l.period`, limit)
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	var list []plan.Offer
	var id string
	var cents int64
	var l plan.Limit
	_, err = pgx.ForEachRow(rows, []any{&id, &cents, &l.Kind, &l.Period, &l.Cap, &l.Tiers, &l.Draws}, func() error {
		if len(list) == 0 || list[len(list)-1].Plan != id {
			list = append(list, plan.Offer{Plan: id, Price: money.NanoUSD(cents) * cent})
		}
		if l.Kind != "" {
			last := &list[len(list)-1]
			last.Limits = append(last.Limits, l)
		}
		l = plan.Limit{} // the next row has slices of its own
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	return list, nil
}
