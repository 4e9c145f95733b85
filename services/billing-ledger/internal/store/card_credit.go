package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// keepCreditRefund keeps a new refund of credit, and takes the credit in the books, so that nobody
// spends it meanwhile. At most what was bought is refunded, which the account must still have
// unheld: a refund makes no debt, and the fee is not given back.
func keepCreditRefund(
	ctx context.Context, tx pgx.Tx, c card.Checkout, r card.Refund, p lockedPayment, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	free, err := unheld(ctx, tx, p.account)
	if err != nil {
		return nil, err
	}
	bound := free
	if r.Own {
		if bound, err = ownUnspent(ctx, tx, p); err != nil {
			return nil, err
		}
		bound = min(bound, free)
	}
	left := max(min(p.left(), c.Amount-p.refunded), 0)
	if r.Amount == 0 {
		r.Amount = min(left, card.Cents(bound/cent))
	}
	switch {
	case r.Amount > left:
		return nil, card.ErrExceeds
	case r.Amount == 0 || r.Amount.Nano() > bound:
		return nil, card.ErrSpent
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	e, err := ledger.CardReversal(ledger.Fact{ID: id, BusinessID: r.ID.String()}, p.account, r.Amount.Nano(), free)
	if err != nil {
		return nil, err
	}
	posted, err := post(ctx, tx, []ledger.Entry{e}, nil)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO card_refund (id, payment_id, cents, on_card, due_at, entry_id, asked_by, note)
		SELECT $1, id, $3, at > now() - $4::interval, now() + interval '1 minute', $5, $6, $7 FROM card_payment
		WHERE id = $2`, r.ID, p.id, r.Amount, card.ByCardFor, posted[0], r.By, r.Note); err != nil {
		return nil, fmt.Errorf("keep a refund: %w", err)
	}
	if r.Note != "" {
		if err := addAct(ctx, tx, refundedTopUp, [16]byte(p.account), details{"checkout_id": r.Checkout.String(),
			"refund_id": r.ID.String(), "amount_usd": r.Amount.Nano().String(), "note": r.Note}); err != nil {
			return nil, err
		}
	}
	crash.At("billing.card.refund_asked_before_commit")
	return posted, nil
}

// creditAgain posts that a refund is not made: its money is credit of the account.
func creditAgain(
	ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Refund, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	e, err := ledger.CardDisputeWin(ledger.Fact{ID: id, BusinessID: r.ID.String()}, p.account, r.Amount.Nano(), 0, 0)
	if err != nil {
		return nil, err
	}
	return post(ctx, tx, []ledger.Entry{e}, nil)
}
