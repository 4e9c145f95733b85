package hold

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
)

// PinWriter writes holds from their pins.
type PinWriter interface {
	// Write makes the holds of the pins durable. It leaves a hold alone that is written already.
	Write(ctx context.Context, pins []Pin) error
}

// fresh is the age below which the hold of a pin is probably not written yet. It is somewhat longer
// than an owner takes to write it. Nothing rests on it but the price: a hold that turns out to be
// missing is written then, and costs a second transaction.
const fresh = 400 * time.Millisecond

// WriteFresh writes the holds of the pins that are probably not written yet by the clock. Pins that
// are nil count for nothing. Without a writer it does nothing.
func WriteFresh(ctx context.Context, w PinWriter, c clock.Clock, pins []*Pin) error {
	if w == nil || c == nil {
		return nil
	}
	now := c.Now()
	var young []Pin
	for _, p := range pins {
		if p != nil && now.Sub(p.AdmittedAt) < fresh {
			young = append(young, *p)
		}
	}
	if len(young) == 0 {
		return nil
	}
	if err := w.Write(ctx, young); err != nil {
		return fmt.Errorf("write %d holds before they are needed: %w", len(young), err)
	}
	return nil
}
