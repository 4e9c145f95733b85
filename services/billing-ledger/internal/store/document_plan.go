package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/document"
)

// planRefund reads what an entry gave back of a plan, and the invoice of the month in which
// the plan was paid, if that is made.
func planRefund(
	ctx context.Context, tx pgx.Tx, entry ids.EntryID,
) (l document.Line, n document.Number, invoiced bool, err error) {
	var plan string
	var from, to time.Time
	var cents int64
	n.Series = document.Invoice
	err = tx.QueryRow(ctx, `SELECT b.plan_id, i.period_start, i.period_end, r.cents, d.year, d.number
		FROM plan_return r JOIN plan_invoice i ON i.id = r.invoice_id JOIN subscription b ON b.id = i.subscription_id
		JOIN entry e ON e.id = i.entry_id JOIN document d ON d.account_id = i.account_id
			AND d.month = date_trunc('month', e.at AT TIME ZONE 'UTC')::date
		WHERE r.entry_id = $1`, [16]byte(entry)).Scan(&plan, &from, &to, &cents, &n.Year, &n.N)
	if errors.Is(err, pgx.ErrNoRows) {
		return l, n, false, nil
	}
	if err != nil {
		return l, n, false, fmt.Errorf("find the invoice of a plan's refund: %w", err)
	}
	return document.PlanLine(plan, from, to, -nano(cents)*cent), n, true, nil
}

// monthOf is an account's month, which is made where it is not there.
func monthOf(months map[ids.AccountID]*document.Month, id ids.AccountID, month time.Time) *document.Month {
	if months[id] == nil {
		months[id] = &document.Month{Month: month}
	}
	return months[id]
}

// readPlanMonths adds to accounts' months what they paid for plans, and what of it went back.
// What went back with a credit note is of an earlier month.
func readPlanMonths(
	ctx context.Context, tx pgx.Tx, at folding, accounts []ids.AccountID, months map[ids.AccountID]*document.Month,
) error {
	rows, err := tx.Query(ctx, `SELECT p.account_id, b.plan_id, p.period_start, p.period_end, sum(p.cents)::bigint FROM (
			SELECT i.account_id, i.subscription_id, i.id, i.period_start, i.period_end, e.at, i.cents
			FROM plan_invoice i JOIN entry e ON e.id = i.entry_id WHERE i.account_id = ANY ($1)
			UNION ALL
			SELECT i.account_id, i.subscription_id, i.id, i.period_start, i.period_end, e.at, -r.cents
			FROM plan_invoice i JOIN plan_return r ON r.invoice_id = i.id JOIN entry e ON e.id = r.entry_id
			WHERE i.account_id = ANY ($1) AND NOT EXISTS (SELECT FROM document d WHERE d.entry_id = r.entry_id)) p
		JOIN subscription b ON b.id = p.subscription_id
		WHERE p.at >= $2 AND p.at < $3
		GROUP BY p.account_id, p.id, b.plan_id, p.period_start, p.period_end, p.cents < 0
		ORDER BY p.account_id, p.period_start, p.id, p.cents < 0`, raw(accounts), at.month, at.end())
	if err != nil {
		return fmt.Errorf("read the plans of a month: %w", err)
	}
	var id [16]byte
	var plan string
	var from, to time.Time
	var cents int64
	_, err = pgx.ForEachRow(rows, []any{&id, &plan, &from, &to, &cents}, func() error {
		m := monthOf(months, id, at.month)
		m.Plans = append(m.Plans, document.PlanLine(plan, from, to, nano(cents)*cent))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the plans of a month: %w", err)
	}
	return nil
}
