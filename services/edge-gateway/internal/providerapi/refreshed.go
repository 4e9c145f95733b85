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

// refreshed keeps an answer that is the same for everybody, so that anybody may ask without
// asking the peers each time. When a caller asks and the last answer is no longer fresh, it
// is made again in the background, once for all callers and whether or not the caller waits.
// Only a caller for whom there is no answer that may still be given waits, and where patient
// is set, a caller who finds an answer that is not fresh.
type refreshed[T any] struct {
	clock clock.Clock
	// freshFor is how long an answer counts as fresh, and keptFor how long it is given while
	// it cannot be made anew. timeout bounds one refresh.
	freshFor, keptFor, timeout time.Duration
	patient                    bool
	// make asks the peers. It is never called twice at once.
	make func(context.Context) (T, error)

	// mu is never held while a peer is asked.
	mu      sync.Mutex
	known   bool
	last    T
	made    time.Time
	refresh chan struct{} // closed when the refresh under way is over; nil for none
	failed  time.Time
	why     error // nil unless the last refresh failed
}

// kept is an answer that may be given. There is none where ok is false.
type kept[T any] struct {
	answer T
	age    time.Duration
	ok     bool
}

// answers are the answers of one refresh, by name. They are not changed.
type answers struct {
	bodies map[string][]byte
	none   []byte // for another name
}

func (a *answers) of(name string) []byte {
	if body, ok := a.bodies[name]; ok {
		return body
	}
	return a.none
}

// get returns the answer, with its age.
func (d *refreshed[T]) get(ctx context.Context) (answer T, age time.Duration, err error) {
	last, under := d.current(ctx)
	if under != nil && (d.patient || !last.ok) {
		select {
		case <-under:
		case <-ctx.Done():
			return answer, 0, fault.Wrap(ctx.Err(), fault.Canceled, fault.ClientClosed,
				"Nobody waits for the answer any more.")
		}
		last = d.kept()
	}
	if !last.ok {
		return answer, 0, d.reason()
	}
	return last.answer, last.age, nil
}

// current returns the last answer, if there is one that may be given, and the end of the
// refresh under way. It begins a refresh when one is due.
func (d *refreshed[T]) current(ctx context.Context) (last kept[T], under <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	stale := !d.known || now.Sub(d.made) >= d.freshFor
	paused := d.why != nil && now.Sub(d.failed) < refreshRetry
	if stale && !paused && d.refresh == nil {
		d.refresh = make(chan struct{})
		// The refresh serves all callers, so it does not end with the caller who asked
		// first.
		go d.renew(context.WithoutCancel(ctx), d.refresh)
	}
	return d.giveableLocked(now), d.refresh
}

func (d *refreshed[T]) kept() kept[T] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.giveableLocked(d.clock.Now())
}

func (d *refreshed[T]) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.why, error(fault.New(fault.Unavailable, fault.ServiceUnavailable, "The answer cannot be told now.")))
}

// giveableLocked returns the last answer unless it is too old.
func (d *refreshed[T]) giveableLocked(now time.Time) kept[T] {
	age := now.Sub(d.made)
	return kept[T]{answer: d.last, age: age, ok: d.known && age < d.keptFor}
}

// renew makes the answer anew, or notes the failure and its time.
func (d *refreshed[T]) renew(ctx context.Context, done chan struct{}) {
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
	d.known, d.last, d.made = true, made, began
}
