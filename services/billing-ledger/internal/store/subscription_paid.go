package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// Hear implements subscription.Store.
func (s Subscriptions) Hear(
	ctx context.Context, n subscription.News, newID func() (ids.EntryID, error),
) error {
	err := s.underWallet(ctx, n.Account, func(tx pgx.Tx, now time.Time) ([]ids.EntryID, error) {
		b, err := ofCheckout(ctx, tx, n)
		switch {
		case err != nil:
			return nil, err
		case b.Account != n.Account || b.Object != "" && b.Object != n.Object:
			return nil, subscription.ErrDiffers
		}
		if b.Object == "" {
			if _, err := tx.Exec(ctx, `UPDATE subscription SET object_id = $2, tell_at = CASE WHEN cancel_at_period_end
				OR state = 'ended' THEN now() END WHERE id = $1`, b.ID, n.Object); err != nil {
				return nil, fmt.Errorf("note a card processor's subscription: %w", err)
			}
			b.Object = n.Object
		}
		return hear(ctx, tx, b, n, now, newID)
	})
	if pg.IsUnique(err, "card_payment_pkey") || pg.IsUnique(err, "card_payment_cost_id_key") ||
		pg.IsUnique(err, "plan_invoice_payment_id_key") || errors.Is(err, ledger.ErrReused) {
		return subscription.ErrDiffers
	}
	return err
}

// ofCheckout reads the subscription of a checkout. A page that was paid although nobody was told
// of it, because the process that opened it died or another page was first, has none yet: it is
// one that was abandoned.
func ofCheckout(ctx context.Context, tx pgx.Tx, n subscription.News) (subscription.Subscription, error) {
	const newest = `b.checkout_id = $1 ORDER BY b.state = 'ended', b.period_end DESC NULLS LAST, b.created_at DESC`
	b, err := firstSubscription(ctx, tx, newest, n.Checkout)
	if !errors.Is(err, subscription.ErrNone) {
		return b, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO subscription (id, account_id, plan_id, price_cents, checkout_id, state, cause,
			ended_at, due_at) SELECT gen_random_uuid(), account_id, plan_id, cents, id, 'ended', 'abandoned', now(), NULL
		FROM checkout WHERE id = $1 AND account_id = $2 AND purpose = 'plan'`, n.Checkout, n.Account); err != nil {
		return b, fmt.Errorf("keep a subscription that nobody knew: %w", err)
	}
	return firstSubscription(ctx, tx, newest, n.Checkout)
}

func hear(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, n subscription.News, now time.Time,
	newID func() (ids.EntryID, error),
) (posted []ids.EntryID, err error) {
	// What is over by now is over, whatever the news.
	if b.State != subscription.Incomplete {
		if b, err = tick(ctx, tx, b, now); err != nil {
			return nil, err
		}
	}
	if n.Invoice != nil {
		if b, posted, err = paidInvoice(ctx, tx, b, *n.Invoice, now, newID); err != nil {
			return nil, err
		}
	}
	if n.Over && !b.Cancel && (b.State == subscription.Active || b.State == subscription.PastDue) {
		b.Cancel = true // there is nothing more to come
		if err := noteCancel(ctx, tx, b, now); err != nil {
			return nil, err
		}
	}
	if b.State == subscription.Active || b.State == subscription.PastDue {
		_, err = tick(ctx, tx, b, now)
	}
	return posted, err
}

// paidInvoice keeps a paid invoice, once, and does what it is judged to do.
func paidInvoice(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, i subscription.Invoice, now time.Time,
	newID func() (ids.EntryID, error),
) (subscription.Subscription, []ids.EntryID, error) {
	var same bool
	err := tx.QueryRow(ctx, `SELECT payment_id = $2 AND (SELECT checkout_id::text FROM subscription s
			WHERE s.id = subscription_id) = $3 FROM plan_invoice WHERE id = $1`,
		i.ID, i.Payment.ID, b.Checkout).Scan(&same)
	switch {
	case err == nil && !same:
		return b, nil, subscription.ErrDiffers
	case err == nil:
		return b, nil, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return b, nil, fmt.Errorf("look for an invoice: %w", err)
	}
	taken, err := hasOtherPlan(ctx, tx, b, now)
	if err != nil {
		return b, nil, err
	}
	verdict := b.Judge(i, taken)
	if verdict == subscription.Begins {
		if b, err = beginAnew(ctx, tx, b, i, now); err != nil {
			return b, nil, err
		}
	}
	posted, err := keepInvoice(ctx, tx, b, i, verdict, now, newID)
	if err != nil {
		return b, nil, err
	}
	b, err = follow(ctx, tx, b, i, verdict, now)
	crash.At("billing.subscription.paid_before_commit")
	return b, posted, err
}

// hasOtherPlan reports whether an account has a plan beside a subscription. One that is incomplete
// is none.
func hasOtherPlan(ctx context.Context, tx pgx.Tx, b subscription.Subscription, now time.Time) (bool, error) {
	taken, err := operatorsPlan(ctx, tx, b.Account, now)
	if err != nil || taken {
		return taken, err
	}
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM subscription WHERE account_id = $1 AND id <> $2
		AND state IN ('active', 'past_due'))`, b.Account, b.ID).Scan(&taken); err != nil {
		return false, fmt.Errorf("look for another subscription: %w", err)
	}
	return taken, nil
}

// beginAnew begins a subscription with a payment behind the end of another. One that is incomplete
// gives way.
func beginAnew(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, i subscription.Invoice, now time.Time,
) (subscription.Subscription, error) {
	if err := endIncomplete(ctx, tx, b.Account, `true`, now); err != nil {
		return b, err
	}
	if err := tx.QueryRow(ctx, `INSERT INTO subscription (id, account_id, plan_id, price_cents, checkout_id, object_id,
			state, period_start, period_end) VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, 'active', $6, $7) RETURNING id`,
		b.Account, b.Plan, int64(b.Price/cent), b.Checkout, b.Object, i.PeriodStart, i.PeriodEnd).Scan(&b.ID); err != nil {
		return b, fmt.Errorf("begin a subscription anew: %w", err)
	}
	b.State, b.Cause, b.Cancel, b.PeriodStart, b.PeriodEnd = subscription.Active, "", false, i.PeriodStart, i.PeriodEnd
	return b, nil
}

// openMonth is the month whose pool a payment joins: its own, or that of now where its own is
// closed. The lock keeps the month open until the transaction ends.
func openMonth(ctx context.Context, tx pgx.Tx, paid, now time.Time) (ledger.Month, error) {
	month := ledger.MonthOf(paid)
	open, err := poolOpen(ctx, tx, month)
	if err == nil && !open {
		month = ledger.MonthOf(now)
		_, err = poolOpen(ctx, tx, month)
	}
	return month, err
}

// poolOpen reports whether the pool of a month is open, and keeps it so.
func poolOpen(ctx context.Context, tx pgx.Tx, month ledger.Month) (open bool, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared(hashtext('billing.plan_pool'), hashtext($1))`,
		string(month)); err != nil {
		return false, fmt.Errorf("lock the pool of a month: %w", err)
	}
	if err := tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM closed_month WHERE month = $1)`, string(month)).
		Scan(&open); err != nil {
		return false, fmt.Errorf("look for the pool of a month: %w", err)
	}
	return open, nil
}

// keepInvoice posts line 11 and what the processor kept, and keeps the payment and the invoice.
func keepInvoice(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, i subscription.Invoice, v subscription.Verdict,
	now time.Time, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	month, err := openMonth(ctx, tx, i.Paid, now)
	if err != nil {
		return nil, err
	}
	entries, err := invoiceEntries(i, month, newID)
	if err != nil {
		return nil, err
	}
	posted, err := post(ctx, tx, entries, nil)
	if err != nil {
		return nil, err
	}
	var cause *string
	var due *time.Time
	if v.GivesBack() {
		cause, due = new(string(v)), &now
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id, invoice_id,
			card_fingerprint) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, i.Payment.ID, b.Checkout, int64(i.Payment.Total/cent),
		i.Payment.CostID, int64(i.Payment.Cost/cent), posted[0], i.ID, i.Payment.Card)
	batch.Queue(`INSERT INTO plan_invoice (id, subscription_id, account_id, payment_id, cents, period_start, period_end,
			paid_at, month, entry_id, refund_cause, refund_due_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		i.ID, b.ID, b.Account, i.Payment.ID, int64(i.Payment.Total/cent), i.PeriodStart, i.PeriodEnd, i.Paid, string(month),
		posted[0], cause, due)
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("keep an invoice: %w", err)
	}
	return posted, nil
}

func invoiceEntries(
	i subscription.Invoice, month ledger.Month, newID func() (ids.EntryID, error),
) ([]ledger.Entry, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	sale, err := ledger.PlanSale(ledger.Fact{ID: id, BusinessID: i.ID}, month, i.Payment.Total)
	if err != nil || i.Payment.Cost == 0 {
		return []ledger.Entry{sale}, err
	}
	if id, err = newID(); err != nil {
		return nil, err
	}
	cost, err := ledger.CardCost(ledger.Fact{ID: id, BusinessID: i.Payment.CostID}, i.Payment.Cost)
	return []ledger.Entry{sale, cost}, err
}

// follow does to a subscription what an invoice was judged to do.
func follow(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, i subscription.Invoice, v subscription.Verdict,
	now time.Time,
) (subscription.Subscription, error) {
	switch v {
	case subscription.Past, subscription.Late:
		return b, nil
	case subscription.Surplus:
		if b.State == subscription.Ended {
			_, err := tx.Exec(ctx, `UPDATE subscription SET tell_at = now() WHERE id = $1`, b.ID)
			return b, wrapped("have the card processor told of an end", err)
		}
		cause := subscription.Cancelled
		if b.State == subscription.Incomplete {
			cause = subscription.Abandoned
		}
		return endSubscriptionRow(ctx, tx, b, cause, now)
	case subscription.Extends, subscription.Begins:
	}
	to, err := b.State.After(subscription.WasPaid)
	if err != nil {
		return b, err
	}
	b.State, b.PeriodStart, b.PeriodEnd = to, i.PeriodStart, i.PeriodEnd
	if _, err := tx.Exec(ctx, `UPDATE subscription SET state = $2, period_start = $3, period_end = $4, due_at = $4
		WHERE id = $1`, b.ID, b.State, b.PeriodStart, b.PeriodEnd); err != nil {
		return b, fmt.Errorf("move a subscription: %w", err)
	}
	return b, coverUntil(ctx, tx, b, now)
}

// coverUntil puts an account on the plan of its subscription until that ends.
func coverUntil(ctx context.Context, tx pgx.Tx, b subscription.Subscription, now time.Time) error {
	if !b.Until().After(now) {
		return nil // it came too late to cover anything
	}
	moved, err := tx.Exec(ctx, `UPDATE account_plan SET until_at = $3 WHERE account_id = $1 AND subscription_id = $2
		AND until_at > $4`, b.Account, b.ID, b.Until(), now)
	if err != nil || moved.RowsAffected() > 0 {
		return wrapped("move the end of a plan", err)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO account_plan (account_id, plan_id, from_at, until_at, subscription_id)
		VALUES ($1, $2, $3, $4, $5)`, b.Account, b.Plan, now, b.Until(), b.ID); err != nil {
		return fmt.Errorf("insert plan: %w", err)
	}
	return nil
}
