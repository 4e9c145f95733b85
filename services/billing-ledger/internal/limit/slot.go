package limit

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
)

// Slots are the places of one kind of call, so that it does not take all
// connections to the database: so many of its calls work at a time, and the
// others wait for as long as their callers do. Calls of one kind may all want the
// same row, and admission must not wait behind them. It is safe for concurrent
// use.
type Slots struct{ free chan struct{} }

// NewSlots makes n places.
func NewSlots(n int) *Slots { return &Slots{free: make(chan struct{}, n)} }

// retryAfter is when somebody who found no place may try again.
const retryAfter = time.Second

// Do runs fn in a place. Without one in time it fails with service_unavailable,
// and fn has not run.
func (s *Slots) Do(ctx context.Context, fn func() error) error {
	select {
	case s.free <- struct{}{}:
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.Unavailable, fault.ServiceUnavailable, "too many calls wait for the store").After(
			retryAfter)
	}
	defer func() { <-s.free }()
	return fn()
}
