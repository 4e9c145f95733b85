package card

import (
	"context"
	"errors"
	"fmt"
)

// returned does what follows from a refund or a dispute.
func (w *Worker) returned(ctx context.Context, r Return) error {
	if r.Key != "" {
		return w.refunded(ctx, r)
	}
	if r.State != ReturnMade && r.State != ReturnWon {
		return nil // nothing has moved
	}
	c, err := w.checkout(ctx, r.Checkout)
	switch {
	case errors.Is(err, ErrNoCheckout):
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a " + string(r.Kind) + " of no checkout"})
	case err != nil:
		return err
	case r.Currency != Currency || r.Livemode != c.Livemode || r.Amount <= 0:
		return w.raise(ctx, Alarm{AlarmDiffers, r.ID, fmt.Sprintf("%d %.8q, livemode %t", r.Amount, r.Currency, r.Livemode)})
	case c.State != Paid && c.SessionID != "":
		// It came before the news of the payment.
		if err := w.lookAtSession(ctx, c.SessionID); err != nil {
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
	if err == nil && r.State == ReturnWon {
		err = w.Store.Win(ctx, r, w.newEntry)
	}
	switch {
	case errors.Is(err, ErrNotPaid):
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "the payment " + r.PaymentID + " is none of ours"})
	case errors.Is(err, ErrReused):
		return w.raise(ctx, Alarm{AlarmDiffers, r.ID, "its amount or payment is another than before"})
	case errors.Is(err, ErrExceeds):
		return w.raise(ctx, Alarm{AlarmExceeds, r.ID, fmt.Sprintf("%d cents of payment %s", r.Amount, r.PaymentID)})
	}
	return err
}

// refunded does what follows from news of a refund that was asked for here. It counts if it
// names our refund, with its payment, amount, currency and mode.
func (w *Worker) refunded(ctx context.Context, r Return) error {
	var id RefundID
	if err := id.UnmarshalText([]byte(r.Key)); err != nil || id.IsZero() {
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a refund under another's key"})
	}
	asked, err := w.Store.Refund(ctx, id)
	switch {
	case errors.Is(err, ErrNoRefund):
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "a refund that nobody asked for"})
	case err != nil:
		return err
	case asked.differs(r) != "":
		return w.raise(ctx, Alarm{AlarmDiffers, r.ID, asked.differs(r)})
	case r.State == ReturnFailed && asked.State == ByCard && asked.ObjectID == r.ID:
		return w.raise(ctx, Alarm{AlarmRefundFailed, r.ID, "the refund " + r.Key + " counts as paid, and its money is back"})
	case !asked.OnCard:
		return w.raise(ctx, Alarm{AlarmExceeds, r.ID, "the card was not asked for the refund " + r.Key})
	case r.State != ReturnMade:
		return nil // the look at the refund decides
	}
	_, err = w.Store.EndRefund(ctx, id, ByCard, r.ID)
	if errors.Is(err, ErrReused) {
		return w.raise(ctx, Alarm{AlarmExceeds, r.ID, "the refund " + r.Key + " has ended otherwise"})
	}
	return err
}
