package stats

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
)

const (
	goodFor = time.Minute
	keptFor = time.Hour
	// pauseAfter is the pause after a failure.
	pauseAfter = 5 * time.Second
)

// Store reads sums.
type Store interface {
	// FoldedUntil returns up to when reports are in the sums.
	FoldedUntil(ctx context.Context) (time.Time, error)
	// Groups calls add with the sums of a window, each of a model at a provider, in parts.
	Groups(ctx context.Context, w Window, add func(*Group)) error
	// Requests counts the requests of a window.
	Requests(ctx context.Context, w Window) (int64, error)
	// ByDay sums up each day (UTC) from a day on.
	ByDay(ctx context.Context, from time.Time) (map[time.Time]*Sum, error)
}

// Cache answers gateways. It is safe for concurrent use. An answer is good for a minute. One
// caller makes it, and the others wait for it. Where no new one can be made, the last one is
// given until it is an hour old.
type Cache struct {
	store Store
	clock clock.Clock
	// turn is held while the fields below are read or written.
	turn chan struct{}

	last     *Answer // nil for none
	madeAt   time.Time
	failed   bool
	failedAt time.Time
}

// NewCache makes a cache that has read nothing yet.
func NewCache(store Store, clk clock.Clock) *Cache {
	return &Cache{store: store, clock: clk, turn: make(chan struct{}, 1)}
}

// Answer returns the figures. The caller must not change them.
func (c *Cache) Answer(ctx context.Context) (*Answer, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
	switch now := c.clock.Now(); {
	case c.last != nil && within(now.Sub(c.madeAt), goodFor):
		return c.last, nil
	case c.failed && within(now.Sub(c.failedAt), pauseAfter):
		return c.kept(now, nil)
	}
	made, err := read(ctx, c.store)
	// A caller that gave up proves nothing of the store.
	c.failed = err != nil && ctx.Err() == nil
	now := c.clock.Now()
	if err != nil {
		c.failedAt = now
		return c.kept(now, err)
	}
	c.last, c.madeAt = made, now
	return made, nil
}

// kept returns the last answer in place of one that cannot be made, unless it is too old.
func (c *Cache) kept(now time.Time, cause error) (*Answer, error) {
	if c.last != nil && within(now.Sub(c.madeAt), keptFor) {
		return c.last, nil
	}
	return nil, unavailable(cause)
}

// within reports whether an age is below maxAge. It returns false for a clock that was set
// back.
func within(age, maxAge time.Duration) bool { return age >= 0 && age < maxAge }

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, fault.ServiceUnavailable,
		"the figures of the service cannot be summed up now").After(pauseAfter)
}

func read(ctx context.Context, store Store) (*Answer, error) {
	at, err := store.FoldedUntil(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask how far the sums are: %w", err)
	}
	a := &Answer{MadeAt: at}
	day, all := Last(at, 24*time.Hour), newGathering()
	if err := store.Groups(ctx, day, all.add); err != nil {
		return nil, fmt.Errorf("sum up the last 24 hours: %w", err)
	}
	a.LastDay, a.Models, a.Providers = Of(&all.all), all.models(), all.providers()
	if a.DayBefore, err = store.Requests(ctx, day.Before()); err != nil {
		return nil, fmt.Errorf("count the 24 hours before: %w", err)
	}
	if a.LastHour, err = store.Requests(ctx, Last(at, time.Hour)); err != nil {
		return nil, fmt.Errorf("count the last hour: %w", err)
	}
	sums, err := store.ByDay(ctx, Day.Start(at).AddDate(0, 0, 1-Days))
	if err != nil {
		return nil, fmt.Errorf("sum up the last days: %w", err)
	}
	a.Days = daysOf(at, sums)
	return a, nil
}
