// Package pause waits until a time has passed or a context has ended.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns the context's error when the context ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
