package providerapi

import (
	"cmp"
	"context"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
)

// refreshRetry is how long peers that failed are not asked again.
const refreshRetry = 5 * time.Second

// refreshed keeps answers that are the same for everybody. When a caller asks and the last
// answers are no longer fresh, they are made again in the background. Only a
// caller for whom there are no answers that may still be given waits.
type refreshed struct {
	clock clock.Clock
	// freshFor is how long answers count as fresh, and keptFor how long they are given while
	// they cannot be made anew. timeout bounds one refresh.
	freshFor, keptFor, timeout time.Duration
	// make asks the peers. It is never called twice at once.
	make func(context.Context) (*answers, error)

	// mu is never held while a peer is asked.
	mu      sync.Mutex
	last    *answers      // nil for none
	refresh chan struct{} // closed when the refresh under way is over; nil for none
	failed  time.Time
	why     error // nil unless the last refresh failed
}

// answers are the answers of one refresh, by name. They are not changed.
type answers struct {
	bodies map[string][]byte
	none   []byte // for another name
	made   time.Time
}

func (a *answers) of(name string) []byte {
	if body, ok := a.bodies[name]; ok {
		return body
	}
	return a.none
}

// get returns the answer of a name, with its age.
func (d *refreshed) get(ctx context.Context, name string) ([]byte, time.Duration, error) {
	last, under := d.current(ctx)
	if last == nil && under != nil {
		select {
		case <-under:
		case <-ctx.Done():
			return nil, 0, fault.Wrap(ctx.Err(), fault.Canceled, fault.ClientClosed, "Nobody waits for the figures any more.")
		}
		last = d.kept()
	}
	if last == nil {
		return nil, 0, d.reason()
	}
	return last.of(name), d.clock.Now().Sub(last.made), nil
}

// current returns the last answers, or nil when there are none that may be given, and the
// end of the refresh under way. It begins a refresh when one is due.
func (d *refreshed) current(ctx context.Context) (last *answers, under <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	stale := d.last == nil || now.Sub(d.last.made) >= d.freshFor
	paused := d.why != nil && now.Sub(d.failed) < refreshRetry
	if stale && !paused && d.refresh == nil {
		d.refresh = make(chan struct{})
		// The refresh serves all callers, so it does not end with the caller who asked
		// first.
		go d.renew(context.WithoutCancel(ctx), d.refresh)
	}
	return d.giveableLocked(now), d.refresh
}

func (d *refreshed) kept() *answers {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.giveableLocked(d.clock.Now())
}

func (d *refreshed) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.why, error(fault.New(fault.Unavailable, fault.ServiceUnavailable, "The figures cannot be told now.")))
}

// giveableLocked returns the last answers unless they are too old.
func (d *refreshed) giveableLocked(now time.Time) *answers {
	if d.last == nil || now.Sub(d.last.made) >= d.keptFor {
		return nil
	}
	return d.last
}

// renew makes the answers anew, or notes the failure and its time.
func (d *refreshed) renew(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	began := d.clock.Now()
	made, err := d.make(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	defer close(done)
	d.refresh, d.why = nil, err
	if err != nil {
		d.failed = d.clock.Now()
		return
	}
	made.made = began
	d.last = made
}
