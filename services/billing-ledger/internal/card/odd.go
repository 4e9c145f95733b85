package card

import (
	"context"
	"errors"
	"fmt"
)

// odd raises an alarm for a return that does not fit its payment.
func (w *Worker) odd(ctx context.Context, r Return, err error) error {
	switch {
	case errors.Is(err, ErrNotPaid):
		return w.raise(ctx, Alarm{AlarmForeign, r.ID, "the payment " + r.PaymentID + " is none of ours"})
	case errors.Is(err, ErrReused):
		return w.raise(ctx, Alarm{AlarmDiffers, r.ID, "its amount, payment or checkout is another than before"})
	case errors.Is(err, ErrExceeds):
		return w.raise(ctx, Alarm{AlarmExceeds, r.ID, fmt.Sprintf("%d cents of payment %s", r.Amount, r.PaymentID)})
	}
	return err
}
