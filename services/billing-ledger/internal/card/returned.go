package card

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// returned does what follows from a refund or a dispute.
func (w *Worker) returned(ctx context.Context, r Return) error {
	if r.Key != "" && !strings.HasPrefix(r.Key, PlanKey) {
		return w.refunded(ctx, r)
	}
	switch r.State {
	case ReturnMade, ReturnWon, ReturnLost, ReturnFailed:
	default:
		return nil // nothing has moved
	}
	c, err := w.checkout(ctx, r.Checkout)
	switch {
	case errors.Is(err, ErrNoCheckout) && r.State == ReturnFailed:
		return nil // what it took, and brings again, was nothing of ours
	case errors.Is(err, ErrNoCheckout):
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a " + string(r.Kind) + " of no checkout"})
	case err != nil:
		return err
	case r.Currency != Currency || r.Livemode != c.Livemode || r.Amount <= 0:
		return w.raise(ctx, Alarm{AlarmDiffers, r.ID, fmt.Sprintf("%d %.8q, livemode %t", r.Amount, r.Currency, r.Livemode)})
	}
	r.Checkout = c.ID.String()
	switch {
	case c.Purpose == PlanPurpose:
		return w.planReturned(ctx, c, r)
	case r.Key != "":
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a refund under another's key"})
	case r.State == ReturnFailed: // what another's refund took is here again
		return w.won(ctx, r)
	case c.State != Paid && c.SessionID != "":
		// It came before the news of the payment.
		if err := w.lookAtSession(ctx, c); err != nil {
			return err
		}
	}
	return w.reversed(ctx, r)
}

// reversed commits a reversal, and what a dispute gave back. A dispute that was won before
// anybody heard of it is reversed first, so that another look, which saw it before it was
// won, finds nothing to do.
func (w *Worker) reversed(ctx context.Context, r Return) error {
	alarm, err := w.Store.Reverse(ctx, r, w.newEntry)
	if alarm != nil {
		w.tell(ctx, *alarm)
	}
	switch {
	case err == nil && r.State == ReturnWon:
		err = w.Store.Win(ctx, r, w.newEntry)
	case err == nil && r.State == ReturnLost:
		err = w.Store.Lose(ctx, r)
	}
	return w.odd(ctx, r, err)
}

// won commits that what a return took is here again. Of one that took nothing it commits nothing.
func (w *Worker) won(ctx context.Context, r Return) error {
	err := w.Store.Win(ctx, r, w.newEntry)
	if errors.Is(err, ErrNotPaid) {
		return nil // it never was of a payment of ours
	}
	return w.odd(ctx, r, err)
}

// refunded does what follows from news of a refund that was asked for here. It counts if it
// names an attempt of ours, with its payment, amount, currency and mode.
func (w *Worker) refunded(ctx context.Context, r Return) error {
	id, attempt, err := parseKey(r.Key)
	if err != nil {
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a refund under another's key"})
	}
	asked, err := w.Store.Refund(ctx, id)
	switch {
	case errors.Is(err, ErrNoRefund), err == nil && attempt > asked.Attempt:
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a refund that nobody asked for"})
	case err != nil:
		return err
	}
	asked.Attempt = attempt
	switch {
	case asked.differs(r) != "":
		return w.raise(ctx, Alarm{AlarmDiffers, r.ID, asked.differs(r)})
	case r.State == ReturnFailed:
		return w.failed(ctx, asked, r.ID)
	case !asked.OnCard:
		return w.raise(ctx, Alarm{AlarmExceeds, r.ID, "the card was not asked for the refund " + r.Key})
	case r.State != ReturnMade:
		return nil // the look at the refund decides
	}
	_, err = w.Store.EndRefund(ctx, asked, ByCard, r.ID, w.newEntry)
	if errors.Is(err, ErrReused) {
		return w.raise(ctx, Alarm{AlarmExceeds, r.ID, "the refund " + r.Key + " has ended otherwise"})
	}
	return err
}

// failed commits that the card did not take an attempt.
func (w *Worker) failed(ctx context.Context, r Refund, object string) error {
	alarm, err := w.Store.FailRefund(ctx, r, object, w.newEntry)
	if alarm != nil {
		w.tell(ctx, *alarm)
	}
	if errors.Is(err, ErrReused) {
		return nil // it is not by this object that the attempt ended, so nothing has moved
	}
	return err
}
