package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/sandbox"
)

const sandboxSubscription = `SELECT b.id, b.session_id, s.checkout, s.account, s.plan, s.cents, s.card, b.declines,
		b.period_end, b.ends_at_period_end, b.ended_at IS NOT NULL,
		i.id, i.session_id IS NULL AND i.void_at IS NULL
	FROM sandbox_subscription b JOIN sandbox_session s ON s.id = b.session_id
	JOIN LATERAL (SELECT * FROM sandbox_invoice WHERE subscription_id = b.id ORDER BY number DESC LIMIT 1) i ON true
	WHERE b.id = $1`

func oneSubscription(ctx context.Context, from reader, id string) (sandbox.Subscription, error) {
	rows, err := from.Query(ctx, sandboxSubscription, id)
	if err != nil {
		return sandbox.Subscription{}, fmt.Errorf("read a subscription: %w", err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[sandbox.Subscription])
	if errors.Is(err, pgx.ErrNoRows) {
		return sandbox.Subscription{}, sandbox.ErrNone
	}
	if err != nil {
		return sandbox.Subscription{}, fmt.Errorf("read a subscription: %w", err)
	}
	return b, nil
}

// Subscription implements sandbox.Store.
func (s Sandbox) Subscription(ctx context.Context, id string) (sandbox.Subscription, error) {
	return oneSubscription(ctx, s.pool, id)
}

const sandboxInvoice = `SELECT i.id, i.subscription_id, i.number, i.tries, i.period_start, i.period_end, i.made_at,
		i.void_at IS NOT NULL, coalesce(i.session_id, ''), p.paid_at, coalesce(p.payment_id, ''), coalesce(p.cost_id, ''),
		coalesce(p.cost_cents, 0), coalesce(p.card, ''), s.cents
	FROM sandbox_invoice i JOIN sandbox_subscription b ON b.id = i.subscription_id
	JOIN sandbox_session s ON s.id = b.session_id LEFT JOIN sandbox_session p ON p.id = i.session_id `

func scanInvoice(row pgx.CollectableRow) (sandbox.Invoice, error) {
	var i sandbox.Invoice
	var paid *time.Time
	err := row.Scan(&i.ID, &i.Subscription, &i.Number, &i.Tries, &i.Start, &i.End, &i.Made, &i.Void, &i.Session, &paid,
		&i.Charge.PaymentID, &i.Charge.CostID, &i.Charge.Cost, &i.Charge.Fingerprint, &i.Total)
	if paid != nil {
		i.Paid, i.Charge.Total = *paid, i.Total
	}
	return i, err
}

// Invoice implements sandbox.Store.
func (s Sandbox) Invoice(ctx context.Context, id string) (sandbox.Invoice, error) {
	rows, err := s.pool.Query(ctx, sandboxInvoice+`WHERE i.id = $1`, id)
	if err != nil {
		return sandbox.Invoice{}, fmt.Errorf("read an invoice: %w", err)
	}
	i, err := pgx.CollectExactlyOneRow(rows, scanInvoice)
	if errors.Is(err, pgx.ErrNoRows) {
		return sandbox.Invoice{}, sandbox.ErrNone
	}
	if err != nil {
		return sandbox.Invoice{}, fmt.Errorf("read an invoice: %w", err)
	}
	return i, nil
}

// Invoices implements sandbox.Store.
func (s Sandbox) Invoices(
	ctx context.Context, subscription string, before, limit int,
) ([]sandbox.Invoice, error) {
	rows, err := s.pool.Query(ctx, sandboxInvoice+`WHERE i.subscription_id = $1 AND ($2 = 0 OR i.number < $2)
		ORDER BY i.number DESC LIMIT $3`, subscription, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list invoices: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanInvoice)
	if err != nil {
		return nil, fmt.Errorf("list invoices: %w", err)
	}
	return list, nil
}

// TakeSubscriptions implements sandbox.Store.
func (s Sandbox) TakeSubscriptions(ctx context.Context, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT id FROM sandbox_subscription WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1
				FOR UPDATE SKIP LOCKED
		)
		UPDATE sandbox_subscription b SET due_at = now() + interval '1 minute' FROM due WHERE b.id = due.id
		RETURNING b.id`, limit)
	if err != nil {
		return nil, fmt.Errorf("take subscriptions: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("take subscriptions: %w", err)
	}
	return list, nil
}

// onSubscription does something under the lock of a subscription that has not ended.
func (s Sandbox) onSubscription(ctx context.Context, id string, do func(pgx.Tx, sandbox.Subscription) error) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM sandbox_subscription WHERE id = $1 FOR UPDATE`, id); err != nil {
			return fmt.Errorf("lock a subscription: %w", err)
		}
		b, err := oneSubscription(ctx, tx, id)
		if err != nil {
			return err
		}
		if b.Ended {
			return sandbox.ErrNotNow
		}
		return do(tx, b)
	})
}

// Change implements sandbox.Store.
func (s Sandbox) Change(ctx context.Context, id string, c sandbox.Change, event string) error {
	return s.onSubscription(ctx, id, func(tx pgx.Tx, _ sandbox.Subscription) error {
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE sandbox_subscription SET ends_at_period_end = coalesce($2, ends_at_period_end),
			declines = coalesce($3, declines), period_end = CASE WHEN $4 THEN least(period_end, now()) ELSE period_end END,
			due_at = CASE WHEN $4 THEN now() ELSE due_at END WHERE id = $1`, id, c.EndsAtPeriodEnd, c.Declines, c.Month)
		batch.Queue(addEvent, event, "customer.subscription.updated", id)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("change a subscription: %w", err)
		}
		return nil
	})
}

// End implements sandbox.Store.
func (s Sandbox) End(ctx context.Context, id, event string) error {
	err := s.onSubscription(ctx, id, func(tx pgx.Tx, _ sandbox.Subscription) error {
		return endSubscription(ctx, tx, id, event)
	})
	if errors.Is(err, sandbox.ErrNotNow) {
		return nil // it has ended
	}
	return err
}

func endSubscription(ctx context.Context, tx pgx.Tx, id, event string) error {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE sandbox_subscription SET ended_at = now(), due_at = NULL WHERE id = $1`, id)
	batch.Queue(`UPDATE sandbox_invoice SET void_at = now() WHERE subscription_id = $1 AND session_id IS NULL
		AND void_at IS NULL`, id)
	batch.Queue(addEvent, event, "customer.subscription.deleted", id)
	if err := sendAll(ctx, tx, batch); err != nil {
		return fmt.Errorf("end a subscription: %w", err)
	}
	return nil
}

// Renew implements sandbox.Store.
func (s Sandbox) Renew(ctx context.Context, id string, c card.Charge, newID func(string) string) error {
	err := s.onSubscription(ctx, id, func(tx pgx.Tx, b sandbox.Subscription) error {
		var over bool
		if err := tx.QueryRow(ctx, `SELECT period_end <= now() FROM sandbox_subscription WHERE id = $1`, id).
			Scan(&over); err != nil {
			return fmt.Errorf("read a subscription: %w", err)
		}
		switch {
		case over && b.EndsAtPeriodEnd:
			return endSubscription(ctx, tx, id, newID("evt"))
		case over && !b.Unpaid:
			if err := nextPeriod(ctx, tx, id, newID("in")); err != nil {
				return err
			}
		case !b.Unpaid: // nothing is due before the period ends
			return dueAt(ctx, tx, id, 0)
		}
		b, err := oneSubscription(ctx, tx, id)
		if err != nil {
			return err
		}
		return tryCard(ctx, tx, b, c, newID)
	})
	if errors.Is(err, sandbox.ErrNotNow) {
		return nil // it has ended meanwhile
	}
	return err
}

// nextPeriod begins a period with an open invoice. It ends on the day of the month on which the
// first one began, or on the last day of a month that is shorter. A period that was cut short by
// the button of the page is followed by a month from its end.
func nextPeriod(ctx context.Context, tx pgx.Tx, id, invoice string) error {
	if _, err := tx.Exec(ctx, `WITH next AS (
			SELECT b.period_end AS begins, n.number, n.anchor + make_interval(months => n.number) AS anchored
			FROM sandbox_subscription b CROSS JOIN LATERAL (SELECT max(number) + 1 AS number, min(period_start) AS anchor
				FROM sandbox_invoice WHERE subscription_id = b.id) n WHERE b.id = $1),
		made AS (
			INSERT INTO sandbox_invoice (id, subscription_id, number, period_start, period_end)
			SELECT $2, $1, number, begins, CASE WHEN anchored BETWEEN begins + interval '27 days' AND begins + interval '32 days'
				THEN anchored ELSE begins + interval '1 month' END FROM next RETURNING period_end)
		UPDATE sandbox_subscription SET period_end = made.period_end FROM made WHERE id = $1`, id, invoice); err != nil {
		return fmt.Errorf("begin a period: %w", err)
	}
	return nil
}

// dueAt has a subscription looked at after a pause, and at the end of its period without one.
func dueAt(ctx context.Context, tx pgx.Tx, id string, pause time.Duration) error {
	if _, err := tx.Exec(ctx, `UPDATE sandbox_subscription SET due_at = CASE WHEN $2 > interval '0' THEN now() + $2
		ELSE period_end END WHERE id = $1`, id, pause); err != nil {
		return fmt.Errorf("have a subscription looked at: %w", err)
	}
	return nil
}

// tryCard pays the open invoice of a subscription, or tries the card in vain.
func tryCard(ctx context.Context, tx pgx.Tx, b sandbox.Subscription, c card.Charge, newID func(string) string) error {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE sandbox_invoice SET tries = tries + 1 WHERE id = $1`, b.LatestInvoice)
	if b.Declines {
		batch.Queue(addEvent, newID("evt"), "invoice.payment_failed", b.LatestInvoice)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("decline an invoice: %w", err)
		}
		return dueAt(ctx, tx, b.ID, sandbox.RetryInterval)
	}
	session := newID("cs")
	batch.Queue(`INSERT INTO sandbox_session (id, checkout, purpose, provider, account, plan, description, return_url,
			cents, expires_at, payment_id, cost_id, cost_cents, card, paid_at)
		SELECT $2, s.checkout || '/' || i.number, s.purpose, s.provider, s.account, s.plan, s.description, s.return_url,
			s.cents, now(), $4, $5, $6, $7, now()
		FROM sandbox_session s, sandbox_invoice i WHERE s.id = $3 AND i.id = $1`, b.LatestInvoice, session, b.SessionID,
		c.PaymentID, c.CostID, c.Cost, c.Fingerprint)
	batch.Queue(`UPDATE sandbox_invoice SET session_id = $2 WHERE id = $1`, b.LatestInvoice, session)
	batch.Queue(addEvent, newID("evt"), "invoice.paid", b.LatestInvoice)
	if err := sendAll(ctx, tx, batch); err != nil {
		return fmt.Errorf("pay an invoice: %w", err)
	}
	return dueAt(ctx, tx, b.ID, 0)
}
