package limit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
)

// Bounds of a Visit.
const (
	// MaxVisits bounds the visits of a window.
	MaxVisits      = 1000
	MinVisitWindow = time.Second
	MaxVisitWindow = 24 * time.Hour
)

// Address is the keyed hash of where a visitor comes from.
type Address [sha256.Size]byte

// Visit asks for one of Limit visits within Window.
type Visit struct {
	Address Address
	Limit   int
	Window  time.Duration
}

// Validate refuses a visit that cannot be counted.
func (v Visit) Validate() error {
	switch {
	case v.Limit < 1 || v.Limit > MaxVisits:
		return fault.New(fault.Invalid, fault.InvalidValue, "limit must be 1 to %d", MaxVisits).On("limit")
	case v.Window < MinVisitWindow || v.Window > MaxVisitWindow:
		return fault.New(fault.Invalid, fault.InvalidValue, "window must be %s to %s", MinVisitWindow,
			MaxVisitWindow).On("window_ms")
	}
	return nil
}

// VisitsLeft is what a visitor has left. Reset is the time until the oldest visit leaves
// the window.
type VisitsLeft struct {
	Remaining int
	Reset     time.Duration
}

// Take adds a visit at now to the earlier visits, oldest first, if there is room for it.
// It also returns the visits that still count.
func (v Visit) Take(made []time.Time, now time.Time) (counting []time.Time, left VisitsLeft, err error) {
	for _, at := range made {
		if at.After(now.Add(-v.Window)) {
			counting = append(counting, at)
		}
	}
	if n := len(counting); n >= v.Limit {
		// There is room again when all but one less than the limit have left.
		wait := counting[n-v.Limit].Add(v.Window).Sub(now)
		return nil, VisitsLeft{}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"This address has used all %d of its requests.", v.Limit).After(wait).
			With("limit", strconv.Itoa(v.Limit)).With("reset_ms", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	counting = append(counting, now)
	return counting, VisitsLeft{Remaining: v.Limit - len(counting), Reset: counting[0].Add(v.Window).Sub(now)}, nil
}

// Left is what is left at now after the earlier visits, oldest first.
func (v Visit) Left(made []time.Time, now time.Time) VisitsLeft {
	left := VisitsLeft{Remaining: v.Limit}
	for _, at := range made {
		if at.After(now.Add(-v.Window)) {
			left.Remaining = max(left.Remaining-1, 0)
			if left.Reset == 0 {
				left.Reset = at.Add(v.Window).Sub(now)
			}
		}
	}
	return left
}

// VisitStore keeps the visits of each address.
type VisitStore interface {
	// VisitsLeft is Visit.Left of the stored visits.
	VisitsLeft(ctx context.Context, v Visit) (VisitsLeft, error)
	// TakeVisit is Visit.Take on the stored visits. The calls for one address wait for
	// each other.
	TakeVisit(ctx context.Context, v Visit) (VisitsLeft, error)
}

// Visitors answers gateways. Calls bounds how many work at a time.
type Visitors struct {
	Store VisitStore
	Calls *Semaphore
}

// Take takes one visit, or refuses with rate_limit_exceeded and the time to wait.
func (s *Visitors) Take(ctx context.Context, v Visit) (VisitsLeft, error) {
	if err := v.Validate(); err != nil {
		return VisitsLeft{}, err
	}
	var left VisitsLeft
	err := s.Calls.Do(ctx, func() (err error) {
		left, err = s.Store.TakeVisit(ctx, v)
		return err
	})
	if err != nil {
		return VisitsLeft{}, fmt.Errorf("take a visit: %w", err)
	}
	return left, nil
}

// Left returns what is left of the visits, and takes none.
func (s *Visitors) Left(ctx context.Context, v Visit) (left VisitsLeft, err error) {
	if err := v.Validate(); err != nil {
		return left, err
	}
	err = s.Calls.Do(ctx, func() (err error) {
		left, err = s.Store.VisitsLeft(ctx, v)
		return err
	})
	if err != nil {
		return VisitsLeft{}, fmt.Errorf("read the visits of an address: %w", err)
	}
	return left, nil
}
