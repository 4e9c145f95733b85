package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// Pay implements card.Store.
func (s Cards) Pay(
	ctx context.Context, id card.CheckoutID, charge card.Charge, newID func() (ids.EntryID, error),
) (late *card.Alarm, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) (posted []ids.EntryID, err error) {
		late, posted, err = pay(ctx, tx, id, charge, newID)
		return posted, err
	})
	return late, err
}

func pay(
	ctx context.Context, tx pgx.Tx, id card.CheckoutID, charge card.Charge, newID func() (ids.EntryID, error),
) (late *card.Alarm, posted []ids.EntryID, err error) {
	c, err := lockCheckout(ctx, tx, id)
	if err != nil {
		return nil, nil, err
	}
	to, err := c.State.After(card.WasPaid)
	if err != nil {
		return nil, nil, err
	}
	if c.State == to {
		return nil, nil, samePayment(ctx, tx, id, charge)
	}
	if c.State == card.Expired {
		late = &card.Alarm{Reason: card.AlarmPaidLate, Object: c.SessionID, Detail: "checkout " + id.String()}
		if _, err := raise(ctx, tx, *late); err != nil {
			return nil, nil, err
		}
	}
	entries, err := paidEntries(c, charge, newID)
	if err != nil {
		return nil, nil, err
	}
	if posted, err = post(ctx, tx, entries, nil); err != nil {
		return nil, nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE checkout SET state = $2, paid_at = now(), due_at = NULL WHERE id = $1`, id, to)
	batch.Queue(`INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id)
		VALUES ($1, $2, $3, $4, $5, $6)`, charge.PaymentID, id, charge.Total, charge.CostID, charge.Cost, posted[0])
	addChange(batch, card.ChangePaid, id, c.SessionID, c.Amount, posted[0])
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, nil, fmt.Errorf("keep a payment: %w", err)
	}
	crash.At("billing.card.paid_before_commit")
	return late, posted, nil
}

// samePayment returns card.ErrPaidTwice unless a paid checkout has that payment.
func samePayment(ctx context.Context, tx pgx.Tx, id card.CheckoutID, charge card.Charge) error {
	var stands string
	if err := tx.QueryRow(ctx, `SELECT id FROM card_payment WHERE checkout_id = $1`, id).Scan(&stands); err != nil {
		return fmt.Errorf("read a payment: %w", err)
	}
	if stands != charge.PaymentID {
		return card.ErrPaidTwice
	}
	return nil
}

// paidEntries returns line 23 and what the processor kept.
func paidEntries(
	c card.Checkout, charge card.Charge, newID func() (ids.EntryID, error),
) ([]ledger.Entry, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	paid, err := ledger.CardCollateral(ledger.Fact{ID: id, BusinessID: c.SessionID}, c.Provider, c.Amount.Nano())
	if err != nil || charge.Cost == 0 {
		return []ledger.Entry{paid}, err
	}
	if id, err = newID(); err != nil {
		return nil, err
	}
	cost, err := ledger.CardCost(ledger.Fact{ID: id, BusinessID: charge.CostID}, charge.Cost.Nano())
	return []ledger.Entry{paid, cost}, err
}

// Expire implements card.Store.
func (s Cards) Expire(ctx context.Context, id card.CheckoutID) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		c, err := lockCheckout(ctx, tx, id)
		if err != nil {
			return err
		}
		to, err := c.State.After(card.HasExpired)
		if err != nil || to == c.State {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE checkout SET state = $2, due_at = NULL WHERE id = $1`, id, to)
		addChange(batch, card.ChangeExpired, id, id.String(), c.Amount, ids.EntryID{})
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("expire a checkout: %w", err)
		}
		return nil
	})
}

// Reverse implements card.Store.
func (s Cards) Reverse(ctx context.Context, r card.Return, newID func() (ids.EntryID, error)) error {
	_, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) { return reverse(ctx, tx, r, newID) })
	return err
}

func reverse(
	ctx context.Context, tx pgx.Tx, r card.Return, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	p, err := lockPayment(ctx, tx, r.PaymentID)
	if err != nil {
		return nil, err
	}
	if known, err := knownReversal(ctx, tx, r); known || err != nil {
		return nil, err
	}
	switch {
	case r.Amount > p.left && p.asked > 0:
		return nil, card.ErrRefundUnderWay
	case r.Amount > p.left:
		return nil, card.ErrExceeds
	}
	has, err := readNeeds(ctx, tx, posting.Needs{Provider: p.provider})
	if err != nil {
		return nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	e, err := ledger.CardCollateralReversal(ledger.Fact{ID: id, BusinessID: r.ID}, p.provider, r.Amount.Nano(),
		has.Collateral)
	if err != nil {
		return nil, err
	}
	posted, err := post(ctx, tx, []ledger.Entry{e}, nil)
	if err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id) VALUES ($1, $2, $3, $4, $5)`,
		r.ID, r.PaymentID, r.Kind, r.Amount, posted[0])
	addChange(batch, card.ChangeReversed, p.checkout, r.ID, r.Amount, posted[0])
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("keep a reversal: %w", err)
	}
	crash.At("billing.card.reversed_before_commit")
	return posted, nil
}

// knownReversal reports whether a reversal is kept already. It returns card.ErrReused for
// one that says otherwise.
func knownReversal(ctx context.Context, tx pgx.Tx, r card.Return) (bool, error) {
	var same bool
	err := tx.QueryRow(ctx, `SELECT (payment_id, cents) = ($2, $3) FROM card_reversal WHERE id = $1`,
		r.ID, r.PaymentID, r.Amount).Scan(&same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read a reversal: %w", err)
	case !same:
		return false, card.ErrReused
	}
	return true, nil
}

// lockedPayment is a payment under its lock, with what is left of it and what of that no
// longer counts because refunds were asked for.
type lockedPayment struct {
	checkout    card.CheckoutID
	provider    ids.ProviderID
	left, asked card.Cents
}

// lockPayment locks a payment and reads it then, or returns card.ErrNotPaid.
func lockPayment(ctx context.Context, tx pgx.Tx, id string) (p lockedPayment, err error) {
	if err := durably(ctx, tx); err != nil {
		return p, err
	}
	if _, err := tx.Exec(ctx, `SELECT FROM card_payment WHERE id = $1 FOR UPDATE`, id); err != nil {
		return p, fmt.Errorf("lock a payment: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT c.id, c.provider_id,
			p.cents - (SELECT coalesce(sum(cents), 0)::bigint FROM card_refund WHERE payment_id = p.id AND state <> 'reversed')
				- (SELECT coalesce(sum(cents), 0)::bigint FROM card_reversal WHERE payment_id = p.id),
			(SELECT coalesce(sum(cents), 0)::bigint FROM card_refund WHERE payment_id = p.id AND state = 'asked')
		FROM card_payment p JOIN checkout c ON c.id = p.checkout_id WHERE p.id = $1`, id).
		Scan(&p.checkout, &p.provider, &p.left, &p.asked)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, card.ErrNotPaid
	}
	if err != nil {
		return p, fmt.Errorf("read a payment: %w", err)
	}
	return p, nil
}
