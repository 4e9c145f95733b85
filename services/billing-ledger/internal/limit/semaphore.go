package limit

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
)

// Semaphore bounds how many calls of one kind work on the store at a time. The
// others wait for as long as their callers do, because calls of one kind may all
// want the same row, and admission must not wait behind them for a connection. It
// is safe for concurrent use.
type Semaphore struct{ free chan struct{} }

// NewSemaphore lets n calls work at a time.
func NewSemaphore(n int) *Semaphore { return &Semaphore{free: make(chan struct{}, n)} }

// retryAfter is the wait for a caller that found no place.
const retryAfter = time.Second

// Do runs fn in a place. When no place is free in time, it fails with service_unavailable
// and fn has not run.
func (s *Semaphore) Do(ctx context.Context, fn func() error) error {
	select {
	case s.free <- struct{}{}:
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.Unavailable, fault.ServiceUnavailable, "too many calls wait for the store").After(
			retryAfter)
	}
	defer func() { <-s.free }()
	return fn()
}
