package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
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
	if c.Purpose == card.PlanPurpose {
		return nil, nil, fmt.Errorf("checkout %s of a plan has no payment of its own", id)
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
	if posted, err = post(ctx, tx, entries, nil); errors.Is(err, ledger.ErrReused) {
		return nil, nil, card.ErrPaidTwice // the balance transaction is that of another payment
	} else if err != nil {
		return nil, nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE checkout SET state = $2, paid_at = now(), due_at = NULL WHERE id = $1`, id, to)
	batch.Queue(`INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id, card_fingerprint,
			charged_before)
		VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $9 THEN `+chargedEver("$8")+` END)`, charge.PaymentID, id, charge.Total,
		charge.CostID, charge.Cost, posted[0], fingerprint(charge), c.Account, c.Purpose == card.TopUp)
	if c.Purpose == card.Collateral {
		addChange(batch, card.ChangePaid, id, c.SessionID, c.Amount, posted[0])
	}
	err = sendAll(ctx, tx, batch)
	if pg.IsUnique(err, "card_payment_pkey") || pg.IsUnique(err, "card_payment_cost_id_key") ||
		pg.IsUnique(err, "card_payment_entry_id_key") {
		return nil, nil, card.ErrPaidTwice
	}
	if err != nil {
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

// fingerprint is the digest of the card of a charge, nil where the card is not known.
func fingerprint(charge card.Charge) []byte {
	if charge.Fingerprint == "" {
		return nil
	}
	return []byte(charge.Fingerprint)
}

// paidEntries returns line 1 or 23, and what the processor kept.
func paidEntries(
	c card.Checkout, charge card.Charge, newID func() (ids.EntryID, error),
) ([]ledger.Entry, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	var paid ledger.Entry
	if c.Purpose == card.TopUp {
		paid, err = ledger.CardTopUp(ledger.Fact{ID: id, BusinessID: c.ID.String()}, c.Account, c.Amount.Nano(),
			c.Fee.Nano())
	} else {
		paid, err = ledger.CardCollateral(ledger.Fact{ID: id, BusinessID: c.SessionID}, c.Provider, c.Amount.Nano())
	}
	if err != nil || charge.Cost == 0 {
		return []ledger.Entry{paid}, err
	}
	if id, err = newID(); err != nil {
		return nil, err
	}
	cost, err := ledger.CardCost(ledger.Fact{ID: id, BusinessID: charge.CostID}, charge.Cost.Nano())
	return []ledger.Entry{paid, cost}, err
}

// Complete implements card.Store.
func (s Cards) Complete(ctx context.Context, id card.CheckoutID) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		c, err := lockCheckout(ctx, tx, id)
		if err != nil {
			return err
		}
		to, err := c.State.After(card.WasPaid)
		if err != nil || c.State == to {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE checkout SET state = $2, paid_at = now(), due_at = NULL
			WHERE id = $1 AND purpose = 'plan'`, id, to); err != nil {
			return fmt.Errorf("complete a checkout: %w", err)
		}
		return nil
	})
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
		if c.Purpose == card.Collateral {
			addChange(batch, card.ChangeExpired, id, id.String(), c.Amount, ids.EntryID{})
		}
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("expire a checkout: %w", err)
		}
		return nil
	})
}
