package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Rate is the state of the rate that leaves a caller the least room.
type Rate struct {
	// Limit of requests a minute; 0 when there is none.
	Limit int32
	// Remaining is how many requests may begin at once.
	Remaining int32
	// Reset is the time until all of Limit may begin at once.
	Reset time.Duration
	// Retry is the time until a refused request may begin.
	Retry time.Duration
}

// Left returns what remains of a limit of perMinute requests that is whole again after
// ahead. Admission computes the same, to the microsecond: a request moves the time on by
// minute/perMinute, rounded up.
func Left(perMinute int32, ahead time.Duration) Rate {
	if perMinute == Unlimited {
		return Rate{}
	}
	m := Meter{PerMinute: max(perMinute, 1), Ahead: max(ahead, 0)}
	return Rate{
		Limit: m.PerMinute, Remaining: int32(max(m.Room(), 0)), Reset: m.Ahead,
		Retry: max(m.Ahead-time.Duration(m.PerMinute-1)*m.every(), 0),
	}
}

// Least returns the rate that leaves less room; r of equals.
func (r Rate) Least(other Rate) Rate {
	if r.Limit == 0 || other.Remaining < r.Remaining {
		return other
	}
	return r
}

// ErrNoKey is a store's error for an unknown key.
var ErrNoKey = errors.New("no such key")

// RateStore reads the state of rates.
type RateStore interface {
	// ReadRate returns the rest of a key's rate in a class.
	ReadRate(ctx context.Context, id ids.KeyID, class Class) (Rate, error)
}

// Rates answers gateways. Calls bounds how many work at a time.
type Rates struct {
	Store RateStore
	Calls *Semaphore
}

// Read returns the rest of a key's rate in a category, and takes nothing of it. It
// leaves out a plan's rate and the rate of zero-priced models, because only a request
// decides which of them count.
func (r *Rates) Read(ctx context.Context, id ids.KeyID, category string) (Rate, error) {
	class, ok := ClassOf(category)
	if !ok {
		return Rate{}, fault.New(fault.Invalid, fault.InvalidValue, "category is unknown").On("category")
	}
	var left Rate
	err := r.Calls.Do(ctx, func() (err error) {
		left, err = r.Store.ReadRate(ctx, id, class)
		return err
	})
	switch {
	case errors.Is(err, ErrNoKey):
		return Rate{}, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "the API key is not valid")
	case err != nil:
		return Rate{}, fmt.Errorf("read a rate: %w", err)
	}
	return left, nil
}
