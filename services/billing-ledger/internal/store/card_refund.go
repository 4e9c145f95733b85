package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/card"
)

const refundColumns = `r.id, p.checkout_id, r.cents, r.state, r.attempt, r.on_card, r.payment_id,
	coalesce(r.object_id, ''), p.cents, (SELECT livemode FROM checkout WHERE id = p.checkout_id),
	(SELECT processor FROM checkout WHERE id = p.checkout_id), (SELECT purpose FROM checkout WHERE id = p.checkout_id),
	r.asked_by, r.note, r.asked_at, coalesce(r.ended_at, '0001-01-01')`

func scanRefund(row pgx.CollectableRow) (r card.Refund, err error) {
	return r, row.Scan(&r.ID, &r.Checkout, &r.Amount, &r.State, &r.Attempt, &r.OnCard, &r.PaymentID, &r.ObjectID, &r.Total,
		&r.Livemode, &r.Processor, &r.Purpose, &r.By, &r.Note, &r.AskedAt, &r.EndedAt)
}

// Refund implements card.Store.
func (s Cards) Refund(ctx context.Context, id card.RefundID) (card.Refund, error) {
	return readRefund(ctx, s.pool, id)
}

// readRefund reads a refund, or returns card.ErrNoRefund.
func readRefund(ctx context.Context, from reader, id card.RefundID) (card.Refund, error) {
	rows, err := from.Query(ctx, `SELECT `+refundColumns+` FROM card_refund r JOIN card_payment p ON p.id = r.payment_id
		WHERE r.id = $1`, id)
	if err != nil {
		return card.Refund{}, fmt.Errorf("read a refund: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRefund)
	if errors.Is(err, pgx.ErrNoRows) {
		return card.Refund{}, card.ErrNoRefund
	}
	if err != nil {
		return card.Refund{}, fmt.Errorf("read a refund: %w", err)
	}
	return r, nil
}

// AskRefund implements card.Store. Who asks has the first minute to end it.
func (s Cards) AskRefund(
	ctx context.Context, r card.Refund, newID func() (ids.EntryID, error),
) (asked card.Refund, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) (posted []ids.EntryID, err error) {
		asked, posted, err = askRefund(ctx, tx, r, newID)
		return posted, err
	})
	return asked, err
}

func askRefund(
	ctx context.Context, tx pgx.Tx, r card.Refund, newID func() (ids.EntryID, error),
) (asked card.Refund, posted []ids.EntryID, err error) {
	if asked, err = readRefund(ctx, tx, r.ID); !errors.Is(err, card.ErrNoRefund) {
		return asked, nil, err
	}
	c, err := oneCheckout(ctx, tx, r.Checkout)
	switch {
	case err != nil:
		return asked, nil, err
	case c.Purpose != cmp.Or(r.Purpose, card.Collateral), !r.Account.IsZero() && r.Account != c.Account:
		return asked, nil, card.ErrNoCheckout
	case c.State != card.Paid:
		return asked, nil, card.ErrNotPaid
	}
	p, err := lockPaymentOf(ctx, tx, r)
	if err != nil {
		return asked, nil, err
	}
	// Another process may have kept the same refund since it was looked for.
	if asked, err = readRefund(ctx, tx, r.ID); !errors.Is(err, card.ErrNoRefund) {
		return asked, nil, err
	}
	if r.Amount > p.cents-p.refunded {
		return asked, nil, card.ErrExceeds
	}
	if p.purpose == card.Collateral {
		err = keepRefund(ctx, tx, r, p)
	} else {
		posted, err = keepCreditRefund(ctx, tx, c, r, p, newID)
	}
	if err != nil {
		return asked, nil, err
	}
	asked, err = readRefund(ctx, tx, r.ID)
	return asked, posted, err
}

// lockPaymentOf locks the payment that a refund is of: the refund's own where it names one, and
// else the last of its checkout.
func lockPaymentOf(ctx context.Context, tx pgx.Tx, r card.Refund) (p lockedPayment, err error) {
	payment := r.PaymentID
	if err := tx.QueryRow(ctx, `SELECT id FROM card_payment WHERE checkout_id = $1 AND ($2 = '' OR id = $2)
		ORDER BY number DESC LIMIT 1`, r.Checkout, payment).Scan(&payment); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return p, card.ErrNotPaid
		}
		return p, fmt.Errorf("read a payment: %w", err)
	}
	if p, err = lockPayment(ctx, tx, payment); err != nil {
		return p, err
	}
	return p, p.lockOwner(ctx, tx)
}

// lockOwner locks what a return of a payment moves: the earnings of a provider, or the wallet of a
// consumer.
func (p lockedPayment) lockOwner(ctx context.Context, tx pgx.Tx) error {
	if p.purpose == card.Collateral {
		return lockEarnings(ctx, tx, p.provider)
	}
	_, err := unheld(ctx, tx, p.account)
	return err
}

// keepRefund keeps a new refund. Where the card's owner has taken so much back that less is
// left, the refund is reversed for ever: a dispute that is won later changes nothing.
func keepRefund(ctx context.Context, tx pgx.Tx, r card.Refund, p lockedPayment) error {
	if _, err := tx.Exec(ctx, `INSERT INTO card_refund (id, payment_id, cents, on_card, due_at)
		SELECT $1, id, $3, at > now() - $4::interval, now() + interval '1 minute' FROM card_payment WHERE id = $2
		ON CONFLICT (id) DO NOTHING`, r.ID, p.id, r.Amount, card.ByCardFor); err != nil {
		return fmt.Errorf("keep a refund: %w", err)
	}
	if r.Amount <= p.left() {
		return nil
	}
	r.Attempt, r.Checkout, r.Purpose = 1, p.checkout, p.purpose
	return endRefund(ctx, tx, r, card.Reversed, "")
}

func endRefund(ctx context.Context, tx pgx.Tx, r card.Refund, to card.RefundState, objectID string) error {
	var object *string
	if objectID != "" {
		object = &objectID
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE card_refund SET state = $2, object_id = $3, ended_at = now(), due_at = NULL WHERE id = $1`,
		r.ID, to, object)
	if r.Purpose == card.Collateral {
		addChange(batch, card.ChangeRefundEnded, r.Checkout, r.Key(), r.Amount, ids.EntryID{})
	}
	if err := sendAll(ctx, tx, batch); err != nil {
		return fmt.Errorf("end a refund: %w", err)
	}
	return nil
}

// EndRefund implements card.Store.
func (s Cards) EndRefund(
	ctx context.Context, of card.Refund, to card.RefundState, objectID string, newID func() (ids.EntryID, error),
) (state card.RefundState, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		r, p, err := lockRefund(ctx, tx, of.ID)
		if err != nil {
			return nil, err
		}
		failed, err := hasFailed(ctx, tx, of, objectID)
		if err != nil {
			return nil, err
		}
		state = r.State
		switch {
		case failed, state == to && r.Attempt == of.Attempt && r.ObjectID == objectID:
			return nil, nil
		case state != card.Asked || r.Attempt != of.Attempt:
			return nil, card.ErrReused
		}
		state = to
		if err := endRefund(ctx, tx, r, to, objectID); err != nil {
			return nil, err
		}
		if p.purpose == card.Collateral || to != card.Reversed {
			return nil, nil
		}
		return creditAgain(ctx, tx, p, r, newID)
	})
	return state, err
}

// lockRefund locks the payment of a refund and the earnings of its provider, which a transaction
// has that changes what is left of the payment, and reads the refund then.
func lockRefund(ctx context.Context, tx pgx.Tx, id card.RefundID) (r card.Refund, p lockedPayment, err error) {
	if r, err = readRefund(ctx, tx, id); err != nil {
		return r, p, err
	}
	if p, err = lockPayment(ctx, tx, r.PaymentID); err != nil {
		return r, p, err
	}
	if err = p.lockOwner(ctx, tx); err != nil {
		return r, p, err
	}
	r, err = readRefund(ctx, tx, id)
	return r, p, err
}

// hasFailed reports whether an attempt is kept as failed by that refund of the processor. It
// returns card.ErrReused for a refund that is kept for another attempt.
func hasFailed(ctx context.Context, tx pgx.Tx, of card.Refund, objectID string) (bool, error) {
	var same bool
	err := tx.QueryRow(ctx, `SELECT (refund_id, attempt) = ($2, $3) FROM card_refund_failure WHERE object_id = $1`,
		objectID, of.ID, of.Attempt).Scan(&same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read a failed attempt: %w", err)
	case !same:
		return false, card.ErrReused
	}
	return true, nil
}

// RefundsOf implements card.Store.
func (s Cards) RefundsOf(
	ctx context.Context, account ids.AccountID, before card.RefundID, limit int,
) ([]card.Refund, error) {
	const of = `FROM card_refund r JOIN card_payment p ON p.id = r.payment_id JOIN checkout c ON c.id = p.checkout_id
		WHERE c.account_id = $1 AND c.purpose <> 'collateral'`
	rows, err := s.pool.Query(ctx, `SELECT `+refundColumns+` `+of+` AND ($2::uuid IS NULL OR (r.asked_at, r.id) <
			(SELECT r.asked_at, r.id `+of+` AND r.id = $2))
		ORDER BY r.asked_at DESC, r.id DESC LIMIT $3`, account, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanRefund)
	if err != nil {
		return nil, fmt.Errorf("list refunds: %w", err)
	}
	return list, nil
}

// FromBank implements card.Store.
func (s Cards) FromBank(ctx context.Context, paymentID string) (card.Cents, error) {
	var paid card.Cents
	if err := s.pool.QueryRow(ctx, `SELECT coalesce(sum(cents), 0)::bigint FROM card_refund
		WHERE payment_id = $1 AND state = 'from_bank'`, paymentID).Scan(&paid); err != nil {
		return 0, fmt.Errorf("sum what the bank paid: %w", err)
	}
	return paid, nil
}

// TakeRefunds implements card.Store.
func (s Cards) TakeRefunds(ctx context.Context, limit int) ([]card.Refund, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT id FROM card_refund WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE card_refund r SET due_at = now() + least(interval '30 seconds' * 2 ^ least(r.looks, 7), interval '1 hour'),
			looks = r.looks + 1
		FROM due, card_payment p WHERE r.id = due.id AND p.id = r.payment_id RETURNING `+refundColumns, limit)
	if err != nil {
		return nil, fmt.Errorf("take refunds: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanRefund)
	if err != nil {
		return nil, fmt.Errorf("take refunds: %w", err)
	}
	return list, nil
}
