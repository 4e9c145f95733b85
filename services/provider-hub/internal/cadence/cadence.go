// Package cadence decides when to write what is gathered: at regular times, and a short
// delay after something came that should not wait so long, so that what follows closely
// is written with it.
package cadence

import (
	"context"
	"time"
)

// Next waits for the next time to write: a tick of every, or delay after wake. It returns
// false when ctx has ended.
func Next(ctx context.Context, every <-chan time.Time, wake <-chan struct{}, delay time.Duration) bool {
	select {
	case <-every:
		return ctx.Err() == nil
	case <-wake:
	case <-ctx.Done():
		return false
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
