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

// FailRefund implements card.Store.
func (s Cards) FailRefund(
	ctx context.Context, of card.Refund, objectID string, newID func() (ids.EntryID, error),
) (alarm *card.Alarm, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) (posted []ids.EntryID, err error) {
		alarm, posted, err = failRefund(ctx, tx, of, objectID, newID)
		return posted, err
	})
	return alarm, err
}

func failRefund(
	ctx context.Context, tx pgx.Tx, of card.Refund, objectID string, newID func() (ids.EntryID, error),
) (alarm *card.Alarm, posted []ids.EntryID, err error) {
	r, p, err := lockRefund(ctx, tx, of.ID)
	if err != nil {
		return nil, nil, err
	}
	if known, err := hasFailed(ctx, tx, of, objectID); known || err != nil {
		return nil, nil, err
	}
	asked := r.State == card.Asked && r.OnCard && r.Attempt <= card.MaxAttempts
	if r.Attempt != of.Attempt || !asked && (r.State != card.ByCard || r.ObjectID != objectID) {
		return nil, nil, card.ErrReused
	}
	entry, err := owedAgain(ctx, tx, r, p, newID)
	if err != nil {
		return nil, nil, err
	}
	if len(entry) > 0 {
		if posted, err = post(ctx, tx, entry, nil); err != nil {
			return nil, nil, err
		}
	}
	if alarm, err = lastAttempt(ctx, tx, r, objectID); err != nil {
		return nil, nil, err
	}
	if err := keepFailure(ctx, tx, r, objectID, posted); err != nil {
		return nil, nil, err
	}
	crash.At("billing.card.refund_failed_before_commit")
	return alarm, posted, nil
}

// owedAgain returns the entry by which what the books paid for an attempt is owed again; none
// where they have paid nothing.
func owedAgain(
	ctx context.Context, tx pgx.Tx, r card.Refund, p lockedPayment, newID func() (ids.EntryID, error),
) ([]ledger.Entry, error) {
	var paid bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM entry WHERE kind = 'collateral_refund_paid'
		AND business_id = $1)`, r.Key()).Scan(&paid); err != nil {
		return nil, fmt.Errorf("read whether a refund is paid: %w", err)
	}
	if !paid {
		return nil, nil
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	e, err := ledger.CollateralRefundFail(ledger.Fact{ID: id, BusinessID: r.Key()}, p.provider, r.Amount.Nano())
	return []ledger.Entry{e}, err
}

// lastAttempt keeps an alarm for the last attempt of the card, and returns it if it is new.
func lastAttempt(ctx context.Context, tx pgx.Tx, r card.Refund, objectID string) (*card.Alarm, error) {
	if r.Attempt < card.MaxAttempts {
		return nil, nil
	}
	then := "the bank is to pay it"
	if r.Purpose != card.Collateral {
		then = "it is credit again"
	}
	alarm := card.Alarm{Reason: card.AlarmRefundFailed, Object: objectID,
		Detail: fmt.Sprintf("the card has not taken the refund %s %d times, and %s", r.ID, r.Attempt, then)}
	fresh, err := raise(ctx, tx, alarm)
	if err != nil || !fresh {
		return nil, err
	}
	return &alarm, nil
}

// keepFailure keeps that an attempt failed, and has the refund asked for again.
func keepFailure(ctx context.Context, tx pgx.Tx, r card.Refund, objectID string, posted []ids.EntryID) error {
	var entry ids.EntryID
	if len(posted) > 0 {
		entry = posted[0]
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO card_refund_failure (object_id, refund_id, attempt, entry_id) VALUES ($1, $2, $3, $4)`,
		objectID, r.ID, r.Attempt, entry)
	batch.Queue(`UPDATE card_refund SET state = 'asked', attempt = attempt + 1, object_id = NULL, ended_at = NULL,
		due_at = now() + $2::interval, looks = 0 WHERE id = $1`, r.ID, card.AttemptInterval)
	if r.Purpose == card.Collateral {
		addChange(batch, card.ChangeRefundFailed, r.Checkout, r.Key(), r.Amount, entry)
	}
	if err := sendAll(ctx, tx, batch); err != nil {
		return fmt.Errorf("keep a failed attempt: %w", err)
	}
	return nil
}
