// Package clock is the seam between domain code and time.
//
// Domain code takes a Clock and never calls time.Now, so that a test or a
// simulator can drive it. Timers that only bound I/O (deadlines, keep-alives)
// use the time package directly and are tested under testing/synctest, whose
// fake clock System follows.
package clock

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the time.
type Clock interface {
	// Now returns the current time. Its location is not specified, so callers that need a
	// calendar day convert it to UTC first.
	Now() time.Time
}

// System is the machine's clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now() }

// Manual is a clock that moves only when Advance is called. It is safe for concurrent
// use.
type Manual struct {
	mu  sync.Mutex
	now time.Time
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now returns the time that the clock was last set to.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock by d, which may be negative, because clocks do jump.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// Sleep waits for d or until ctx ends. It returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// phase is by how many nanoseconds the ticks of this process come after those of a process that has not called Spread.
var phase atomic.Int64

// longestPhase is as long as the longest interval of a loop, so that hourly work of several processes is spread, too.
const longestPhase = 24 * time.Hour

// Spread has the loops of this process tick at other moments than those of other processes, which may look at the
// same database. It is for the beginning of a program: who ticks already goes on as before.
func Spread() {
	phase.Store(rand.Int64N(int64(longestPhase))) //nolint:gosec // a moment, and no secret
}

// ToTick returns the time from now to the next tick of interval d, more than 0 and at most d. Ticks of all loops of a
// process with the same interval, or a multiple of it, come at the same moments: an idle processor is woken once for
// all of them, and what one of them has asked a database the others need not ask.
func ToTick(d time.Duration) time.Duration {
	since := time.Duration((time.Now().UnixNano() - phase.Load()) % int64(d))
	if since < 0 {
		since += d
	}
	return d - since
}

// afterTick is ToTick just after a tick. A clock that is set back a little meanwhile makes no second tick of it.
func afterTick(d time.Duration) time.Duration {
	to := ToTick(d)
	if to <= d/2 {
		to += d
	}
	return to
}

// Every yields the time at each tick of interval d (see ToTick) until ctx ends. A caller that takes longer than d
// misses the ticks in between.
func Every(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		ticker := time.NewTicker(ToTick(d))
		defer ticker.Stop()
		for first := true; ; first = false {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				if first {
					ticker.Reset(afterTick(d))
				}
				if !yield(now) {
					return
				}
			}
		}
	}
}

// Still says which looks of a loop may be left out, because they would find what the last one found. A nil Still leaves
// no look out. It is for one loop.
type Still struct {
	holds  func(ctx context.Context) bool
	failed func()
}

// NewStill returns a Still that asks holds before each look, and calls failed, which may be nil, after a look that
// failed.
func NewStill(holds func(ctx context.Context) bool, failed func()) *Still {
	return &Still{holds, failed}
}

// Holds reports whether the next look may be left out.
func (s *Still) Holds(ctx context.Context) bool { return s != nil && s.holds(ctx) }

// Learn takes the outcome of a look, and returns it. A look that failed is no look, so the next one is not left out.
func (s *Still) Learn(err error) error {
	if err != nil && s != nil && s.failed != nil {
		s.failed()
	}
	return err
}

// Both leaves out the looks that a and b both leave out. Each learns the outcome of a look.
func Both(a, b *Still) *Still {
	return NewStill(func(ctx context.Context) bool { return a.Holds(ctx) && b.Holds(ctx) }, func() {
		for _, s := range []*Still{a, b} {
			if s != nil && s.failed != nil {
				s.failed()
			}
		}
	})
}

// WithinMinute holds until c shows another minute than at the last look. It is for a loop whose work becomes due by
// a clock that may be set to another time: within a minute it can rely on what else it knows.
func WithinMinute(c Clock) *Still {
	var looked time.Time
	return NewStill(func(context.Context) bool {
		now := c.Now().Truncate(time.Minute)
		if now.Equal(looked) {
			return true
		}
		looked = now
		return false
	}, nil)
}

// EveryUnless is Every without the times at which still holds.
func EveryUnless(ctx context.Context, d time.Duration, still *Still) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for now := range Every(ctx, d) {
			if !still.Holds(ctx) && !yield(now) {
				return
			}
		}
	}
}

// Next waits until a loop looks again: when it is woken, and at a tick unless still holds. It
// returns false when ctx ends.
func Next(ctx context.Context, ticks <-chan time.Time, wake <-chan struct{}, still *Still) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-wake:
			return true
		case <-ticks:
			if !still.Holds(ctx) {
				return true
			}
		}
	}
}
