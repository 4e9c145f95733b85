package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// planInvoice is an invoice under the lock of its account's wallet.
type planInvoice struct {
	id, month, payment string
	cents              int64
	account            ids.AccountID
	subscription       subscription.ID
	refunding          bool
	// newest reports whether it is the last of its subscription.
	newest bool
}

const selectPlanInvoice = `SELECT i.id, i.month, i.payment_id, i.cents, i.account_id, i.subscription_id,
		i.refund_cause IS NOT NULL, coalesce(i.period_end = b.period_end, false)
	FROM plan_invoice i JOIN subscription b ON b.id = i.subscription_id WHERE `

func onePlanInvoice(ctx context.Context, from reader, where, value string) (i planInvoice, err error) {
	rows, err := from.Query(ctx, selectPlanInvoice+where, value)
	if err != nil {
		return i, fmt.Errorf("read an invoice: %w", err)
	}
	i, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (i planInvoice, err error) {
		return i, row.Scan(&i.id, &i.month, &i.payment, &i.cents, &i.account, &i.subscription, &i.refunding, &i.newest)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return i, subscription.ErrNoInvoice
	}
	if err != nil {
		return i, fmt.Errorf("read an invoice: %w", err)
	}
	return i, nil
}

// AskRefund implements subscription.Store.
func (s Subscriptions) AskRefund(ctx context.Context, invoice, memo string) error {
	found, err := onePlanInvoice(ctx, s.pool, `i.id = $1`, invoice)
	if err != nil {
		return err
	}
	return s.underWallet(ctx, found.account, func(tx pgx.Tx, now time.Time) ([]ids.EntryID, error) {
		i, err := onePlanInvoice(ctx, tx, `i.id = $1`, invoice)
		if err != nil || i.refunding {
			return nil, err
		}
		if _, err := tx.Exec(ctx, `UPDATE plan_invoice SET refund_cause = 'operator', refund_due_at = now()
			WHERE id = $1`, i.id); err != nil {
			return nil, fmt.Errorf("ask for a refund: %w", err)
		}
		if err := endRefunded(ctx, tx, i, now); err != nil {
			return nil, err
		}
		return nil, addAct(ctx, tx, refundedPlan, [16]byte(i.account), details{"invoice": i.id, "memo": memo})
	})
}

// endRefunded ends the subscription whose last invoice is given back.
func endRefunded(ctx context.Context, tx pgx.Tx, i planInvoice, now time.Time) error {
	b, err := firstSubscription(ctx, tx, `b.id = $1 AND b.state <> 'ended'`, i.subscription)
	switch {
	case errors.Is(err, subscription.ErrNone), err == nil && !i.newest:
		return nil
	case err != nil:
		return err
	}
	if _, err := b.State.After(subscription.Refunded); err != nil {
		return err
	}
	_, err = endSubscriptionRow(ctx, tx, b, subscription.WasRefunded, now)
	return err
}

// TakeRefunds implements subscription.Store.
func (s Subscriptions) TakeRefunds(ctx context.Context, limit int) ([]subscription.Refund, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT id FROM plan_invoice WHERE refund_due_at <= (SELECT now()) ORDER BY refund_due_at LIMIT $1
				FOR UPDATE SKIP LOCKED
		)
		UPDATE plan_invoice i SET refund_due_at = now()
				+ least(interval '1 minute' * 2 ^ least(i.refund_looks, 10), interval '6 hours'),
			refund_looks = i.refund_looks + 1
		FROM due, subscription b, checkout c WHERE i.id = due.id AND b.id = i.subscription_id AND c.id = b.checkout_id
		RETURNING i.id, i.payment_id, c.processor, i.cents
			- (SELECT coalesce(sum(r.cents), 0)::bigint FROM plan_return r WHERE r.invoice_id = i.id)`, limit)
	if err != nil {
		return nil, fmt.Errorf("take refunds of plans: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r subscription.Refund, err error) {
		err = row.Scan(&r.Invoice, &r.Payment, &r.Processor, &r.Amount)
		r.Amount *= cent
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("take refunds of plans: %w", err)
	}
	return list, nil
}

// RefundEnded implements subscription.Store.
func (s Subscriptions) RefundEnded(ctx context.Context, invoice string) error {
	if _, err := s.pool.Exec(ctx, `UPDATE plan_invoice SET refund_due_at = NULL WHERE id = $1`, invoice); err != nil {
		return fmt.Errorf("end a refund of a plan: %w", err)
	}
	return nil
}

// GiveBack implements subscription.Store.
func (s Subscriptions) GiveBack(
	ctx context.Context, r subscription.Return, newID func() (ids.EntryID, error),
) error {
	found, err := onePlanInvoice(ctx, s.pool, `i.payment_id = $1`, r.Payment)
	if err != nil {
		return err
	}
	return s.underWallet(ctx, found.account, func(tx pgx.Tx, now time.Time) ([]ids.EntryID, error) {
		i, err := onePlanInvoice(ctx, tx, `i.payment_id = $1`, r.Payment)
		if err != nil {
			return nil, err
		}
		known, back, err := planReturned(ctx, tx, i, r)
		switch {
		case err != nil:
			return nil, err
		case known:
			return nil, planDisputed(ctx, tx, i, r, false)
		case back+int64(r.Amount/cent) > i.cents:
			return nil, subscription.ErrExceeds
		}
		posted, err := postReturn(ctx, tx, i, r, newID)
		if err != nil {
			return nil, err
		}
		if back+int64(r.Amount/cent) == i.cents {
			err = endGivenBack(ctx, tx, i, now)
		}
		if err == nil {
			err = planDisputed(ctx, tx, i, r, true)
		}
		crash.At("billing.subscription.returned_before_commit")
		return posted, err
	})
}

// planDisputed freezes the account of an invoice when a dispute of it is new, until the dispute ends.
// The caller has the lock on the wallet.
func planDisputed(ctx context.Context, tx pgx.Tx, i planInvoice, r subscription.Return, fresh bool) error {
	switch {
	case r.Disputed && fresh && !r.Over:
		if _, err := freeze(ctx, tx, i.account, account.ByDispute, r.ID); err != nil {
			return err
		}
	case r.Disputed && r.Over:
		if err := lift(ctx, tx, i.account, r.ID, account.ByDispute); err != nil {
			return err
		}
	default:
		return nil
	}
	return followCauses(ctx, tx, i.account, "card dispute of a plan")
}

// planReturned reports whether a return is kept, and how much of the invoice went back. It returns
// subscription.ErrDiffers for one that says otherwise.
func planReturned(
	ctx context.Context, tx pgx.Tx, i planInvoice, r subscription.Return,
) (known bool, back int64, err error) {
	var same bool
	if err := tx.QueryRow(ctx, `SELECT coalesce(bool_or(id = $2), false),
			coalesce(bool_and((invoice_id, cents) = ($1, $3)) FILTER (WHERE id = $2), true),
			coalesce(sum(cents) FILTER (WHERE invoice_id = $1), 0)::bigint
		FROM plan_return WHERE invoice_id = $1 OR id = $2`, i.id, r.ID, int64(r.Amount/cent)).
		Scan(&known, &same, &back); err != nil {
		return false, 0, fmt.Errorf("read what went back of an invoice: %w", err)
	}
	if !same {
		return false, 0, subscription.ErrDiffers
	}
	return known, back, nil
}

// postReturn posts the other half of line 11, and keeps the return.
func postReturn(
	ctx context.Context, tx pgx.Tx, i planInvoice, r subscription.Return, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	open, err := poolOpen(ctx, tx, ledger.Month(i.month))
	if err != nil {
		return nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	e, err := ledger.PlanRefund(ledger.Fact{ID: id, BusinessID: r.ID}, ledger.Month(i.month), open, r.Amount)
	if err != nil {
		return nil, err
	}
	posted, err := post(ctx, tx, []ledger.Entry{e}, nil)
	if err != nil {
		return nil, err
	}
	var month *string
	if open {
		month = &i.month
	}
	if _, err := tx.Exec(ctx, `INSERT INTO plan_return (id, invoice_id, cents, month, entry_id)
		VALUES ($1, $2, $3, $4, $5)`, r.ID, i.id, int64(r.Amount/cent), month, posted[0]); err != nil {
		return nil, fmt.Errorf("keep what went back of an invoice: %w", err)
	}
	return posted, nil
}

// endGivenBack ends what is due for an invoice that went back whole, and its subscription.
func endGivenBack(ctx context.Context, tx pgx.Tx, i planInvoice, now time.Time) error {
	if _, err := tx.Exec(ctx, `UPDATE plan_invoice SET refund_due_at = NULL WHERE id = $1`, i.id); err != nil {
		return fmt.Errorf("end a refund of a plan: %w", err)
	}
	return endRefunded(ctx, tx, i, now)
}
