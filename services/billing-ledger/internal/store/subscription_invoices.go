package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// Invoices implements subscription.Store.
func (s Subscriptions) Invoices(
	ctx context.Context, account ids.AccountID, limit int,
) ([]subscription.PaidPeriod, error) {
	var known bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM account WHERE id = $1)`, account).
		Scan(&known); err != nil {
		return nil, fmt.Errorf("look for an account: %w", err)
	}
	if !known {
		return nil, subscription.ErrNone
	}
	rows, err := s.pool.Query(ctx, `SELECT i.id, b.plan_id, i.cents,
			coalesce((SELECT sum(r.cents) FROM plan_return r WHERE r.invoice_id = i.id), 0)::bigint, i.period_start,
			i.period_end, i.paid_at, i.month, coalesce(i.refund_cause, ''), i.refund_due_at IS NOT NULL,
			b.state <> 'ended' AND coalesce(i.period_end = b.period_end, false)
		FROM plan_invoice i JOIN subscription b ON b.id = i.subscription_id
		WHERE i.account_id = $1 ORDER BY i.paid_at DESC, i.id LIMIT $2`, account, limit)
	if err != nil {
		return nil, fmt.Errorf("list the invoices of an account: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i subscription.PaidPeriod, err error) {
		err = row.Scan(&i.ID, &i.Plan, &i.Amount, &i.Returned, &i.PeriodStart, &i.PeriodEnd, &i.PaidAt, &i.Month,
			&i.RefundCause, &i.RefundOpen, &i.Ends)
		i.Amount, i.Returned = i.Amount*cent, i.Returned*cent
		return i, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the invoices of an account: %w", err)
	}
	return list, nil
}
