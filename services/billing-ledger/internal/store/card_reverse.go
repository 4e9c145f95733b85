package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// Reverse implements card.Store.
func (s Cards) Reverse(
	ctx context.Context, r card.Return, newID func() (ids.EntryID, error),
) (alarm *card.Alarm, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) (posted []ids.EntryID, err error) {
		alarm, posted, err = reverse(ctx, tx, r, newID)
		return posted, err
	})
	return alarm, err
}

func reverse(
	ctx context.Context, tx pgx.Tx, r card.Return, newID func() (ids.EntryID, error),
) (alarm *card.Alarm, posted []ids.EntryID, err error) {
	p, err := lockPayment(ctx, tx, r.PaymentID)
	if err != nil {
		return nil, nil, err
	}
	if r.Checkout != p.checkout.String() {
		return nil, nil, card.ErrReused
	}
	if known, err := knownReversal(ctx, tx, r); known || err != nil {
		return nil, nil, err
	}
	switch {
	case r.Amount > p.left() && p.asked > 0:
		return nil, nil, card.ErrRefundUnderWay
	case r.Amount > p.cents-p.reversed:
		return nil, nil, card.ErrExceeds
	}
	posted, then, err := reversalOf(ctx, tx, p, r, newID)
	if err != nil {
		return nil, nil, err
	}
	if alarm, err = beyondRefunds(ctx, tx, p, r); err != nil {
		return nil, nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id) VALUES ($1, $2, $3, $4, $5)`,
		r.ID, r.PaymentID, r.Kind, r.Amount, posted[0])
	if p.purpose == card.Collateral {
		addChange(batch, card.ChangeReversed, p.checkout, r.ID, r.Amount, posted[0])
	}
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, nil, fmt.Errorf("keep a reversal: %w", err)
	}
	if err := then(); err != nil {
		return nil, nil, err
	}
	crash.At("billing.card.reversed_before_commit")
	return alarm, posted, nil
}

// reversalOf posts what a reversal takes back, by the purpose of its payment. then is to be called
// once the reversal is kept.
func reversalOf(
	ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Return, newID func() (ids.EntryID, error),
) (posted []ids.EntryID, then func() error, err error) {
	switch p.purpose {
	case card.TopUp:
		return creditReversed(ctx, tx, p, r, newID)
	case card.PlanPurpose:
		return nil, nil, card.ErrNotPaid // see card.Plans
	case card.Collateral:
	}
	has, err := readNeeds(ctx, tx, posting.Needs{Provider: p.provider})
	if err != nil {
		return nil, nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, nil, err
	}
	e, err := ledger.CardCollateralReversal(ledger.Fact{ID: id, BusinessID: r.ID}, p.provider, r.Amount.Nano(),
		has.Collateral)
	if err != nil {
		return nil, nil, err
	}
	posted, err = post(ctx, tx, []ledger.Entry{e}, nil)
	return posted, func() error { return nil }, err
}

// beyondRefunds sees to a reversal of what was refunded. The bank no longer pays what it has
// not paid, the last refund first. What was refunded nevertheless is a debt and an alarm.
func beyondRefunds(ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Return) (*card.Alarm, error) {
	over := r.Amount - p.left()
	if over <= 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT id, cents FROM card_refund f WHERE payment_id = $1 AND state = 'from_bank'
			AND NOT EXISTS (SELECT FROM entry WHERE kind = 'collateral_refund_paid'
				AND business_id = refund_key(f.id, f.attempt))
		ORDER BY ended_at DESC, id DESC`, p.id)
	if err != nil {
		return nil, fmt.Errorf("read what the bank is to refund: %w", err)
	}
	type refund struct {
		ID     card.RefundID
		Amount card.Cents
	}
	unpaid, err := pgx.CollectRows(rows, pgx.RowToStructByPos[refund])
	if err != nil {
		return nil, fmt.Errorf("read what the bank is to refund: %w", err)
	}
	for _, f := range unpaid {
		if over <= 0 {
			break
		}
		if _, err := tx.Exec(ctx, `UPDATE card_refund SET state = 'reversed' WHERE id = $1`, f.ID); err != nil {
			return nil, fmt.Errorf("reverse a refund of the bank: %w", err)
		}
		over -= f.Amount
	}
	if over <= 0 {
		return nil, nil
	}
	alarm := card.Alarm{Reason: card.AlarmExceeds, Object: r.ID,
		Detail: fmt.Sprintf("%d cents of payment %s were refunded too, and are owed", over, r.PaymentID)}
	fresh, err := raise(ctx, tx, alarm)
	if err != nil || !fresh {
		return nil, err
	}
	return &alarm, nil
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

// Win implements card.Store.
func (s Cards) Win(ctx context.Context, r card.Return, newID func() (ids.EntryID, error)) error {
	_, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) { return win(ctx, tx, r, newID) })
	return err
}

func win(
	ctx context.Context, tx pgx.Tx, r card.Return, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	p, err := lockPayment(ctx, tx, r.PaymentID)
	if err != nil {
		return nil, err
	}
	if known, err := knownReversal(ctx, tx, r); !known || err != nil {
		return nil, err
	}
	e, then, err := winOf(ctx, tx, p, r, newID)
	if err != nil || then == nil {
		return nil, err
	}
	posted, err := post(ctx, tx, []ledger.Entry{e}, nil)
	if err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO card_dispute_won (reversal_id, entry_id) VALUES ($1, $2)`, r.ID, posted[0])
	if p.purpose == card.Collateral {
		addChange(batch, card.ChangeDisputeWon, p.checkout, r.ID, r.Amount, posted[0])
	}
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("keep a dispute that was won: %w", err)
	}
	if err := then(); err != nil {
		return nil, err
	}
	crash.At("billing.card.won_before_commit")
	return posted, nil
}

// winOf returns the entry by which what a reversal took is here again, by the purpose of its
// payment. then is to be called once that is kept, and nil where it was kept before.
func winOf(
	ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Return, newID func() (ids.EntryID, error),
) (e ledger.Entry, then func() error, err error) {
	var has posting.Has
	if p.purpose == card.Collateral {
		if has, err = readNeeds(ctx, tx, posting.Needs{Provider: p.provider, Cards: true}); err != nil {
			return e, nil, err
		}
	}
	// made is what the reversal made the provider owe.
	var won bool
	var made money.NanoUSD
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM card_dispute_won WHERE reversal_id = r.id),
			(SELECT coalesce(-sum(amount), 0)::bigint FROM posting WHERE entry_id = r.entry_id
				AND account_kind = 'a:provider_receivable')
		FROM card_reversal r WHERE id = $1`, r.ID).Scan(&won, &made); err != nil || won {
		return e, nil, wrapped("read a reversal", err)
	}
	if p.purpose != card.Collateral {
		return creditWon(ctx, tx, p, r, newID)
	}
	id, err := newID()
	if err != nil {
		return e, nil, err
	}
	e, err = ledger.CardCollateralWin(ledger.Fact{ID: id, BusinessID: r.ID}, p.provider, r.Amount.Nano(), made,
		has.Backing())
	return e, func() error { return nil }, err
}

// wrapped wraps an error, and leaves none as it is.
func wrapped(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// lockedPayment is a payment under its lock, with what of it went back.
type lockedPayment struct {
	id       string
	checkout card.CheckoutID
	purpose  card.Purpose
	// provider is whose collateral was paid, and account who bought anything else.
	provider ids.ProviderID
	account  ids.AccountID
	cents    card.Cents
	// reversed went back without our doing. refunded was asked for here, and asked is what of
	// that has not ended.
	reversed, refunded, asked card.Cents
}

// left is what may go back, below zero where the card's owner took back what was refunded.
func (p lockedPayment) left() card.Cents { return p.cents - p.reversed - p.refunded }

// lockPayment locks a payment and reads it then, or returns card.ErrNotPaid.
func lockPayment(ctx context.Context, tx pgx.Tx, id string) (p lockedPayment, err error) {
	if err := durably(ctx, tx); err != nil {
		return p, err
	}
	if _, err := tx.Exec(ctx, `SELECT FROM card_payment WHERE id = $1 FOR UPDATE`, id); err != nil {
		return p, fmt.Errorf("lock a payment: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT payment_id, checkout_id, purpose, provider_id, account_id, cents, reversed, refunded,
			asked FROM card_payment_back WHERE payment_id = $1`, id).
		Scan(&p.id, &p.checkout, &p.purpose, &p.provider, &p.account, &p.cents, &p.reversed, &p.refunded, &p.asked)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, card.ErrNotPaid
	}
	if err != nil {
		return p, fmt.Errorf("read a payment: %w", err)
	}
	return p, nil
}
