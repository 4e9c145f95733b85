package external

import (
	"context"
	"sync"
	"time"
)

// Hub calls the endpoints of which this hub holds the leases.
type Hub struct {
	base

	mu       sync.Mutex
	callers  map[ID]*caller
	skipped  unreadable
	draining bool
	drains   chan struct{} // closed by Drain
	wakes    chan struct{} // signalled by Wake
	work     sync.WaitGroup
}

// New returns a hub that calls no endpoint before Run.
func New(cfg Config, deps Deps) *Hub {
	return &Hub{
		base:    base{cfg: cfg.withDefaults(), deps: deps, Counts: &Counts{}},
		callers: map[ID]*caller{}, skipped: unreadable{}, drains: make(chan struct{}), wakes: make(chan struct{}, 1),
	}
}

// Run takes and serves endpoints until ctx ends, and returns when all calls have ended.
func (h *Hub) Run(ctx context.Context) error {
	defer h.work.Wait()
	var resealed time.Time
	for {
		h.beat(ctx)
		if now := h.deps.Clock.Now(); now.Sub(resealed) >= resealInterval {
			resealed = now
			h.reseal(ctx)
		}
		if h.await(ctx) {
			continue
		}
		h.retireAll()
		h.giveUp(ctx)
		<-ctx.Done()
		return nil
	}
}

// await waits for the next beat, and reports whether it is due: false when the hub calls no endpoint
// any more. No beat is due while there is no endpoint.
func (h *Hub) await(ctx context.Context) bool {
	for {
		select {
		case <-h.wakes:
			return true
		case <-time.After(h.cfg.BeatInterval):
			if h.Counts.Held.Load() > 0 || h.deps.None == nil || !h.deps.None(ctx) {
				return true
			}
		case <-ctx.Done():
			return false
		case <-h.drains:
			return false
		}
	}
}

// Wake has the hub look at the endpoints now, because one has changed.
func (h *Hub) Wake() {
	select {
	case h.wakes <- struct{}{}:
	default:
	}
}

// Drain gives every endpoint up to other hubs. Requests under way go on until ctx of Run
// ends.
func (h *Hub) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.draining = true
		close(h.drains)
	}
}

// beat says that the hub is alive, and serves the endpoints that it holds from now on.
func (h *Hub) beat(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.patience())
	defer cancel()
	// The time is read before the statement, so that the database's own time of the lease is
	// never earlier.
	until := h.deps.Clock.Now().Add(h.cfg.LeaseTTL - h.cfg.LeaseMargin)
	b := Beat{Holder: h.deps.Holder, HubID: h.cfg.HubID, TTL: h.cfg.LeaseTTL, Max: h.cfg.Max}
	b.Skip, b.Unreadable = h.leaves()
	held, err := h.deps.Store.Beat(limited, b)
	if err != nil {
		if ctx.Err() == nil {
			h.deps.Log.Warn("leases of external endpoints were not renewed", "error", err)
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return
	}
	mine := make(map[ID]bool, len(held))
	for _, one := range held {
		mine[one.ID] = true
		c := h.callers[one.ID]
		if c != nil && c.revision == one.Revision && c.extend(until.Sub(h.deps.Clock.Now())) {
			continue
		}
		var before *past
		if c != nil {
			c.retire()
			before = c.past()
		}
		h.beginLocked(ctx, one, until, before)
	}
	for id, c := range h.callers {
		if !mine[id] {
			c.retire()
			delete(h.callers, id)
		}
	}
	h.Counts.Held.Store(int64(len(h.callers)))
}

// beginLocked serves an endpoint until its lease ends, unless the lease is renewed. before is what an
// earlier caller knew of the endpoint; nil for nothing.
func (h *Hub) beginLocked(ctx context.Context, one Held, until time.Time, before *past) {
	c := &caller{base: h.base, id: one.ID, revision: one.Revision, before: before, retired: make(chan struct{}),
		news: make(chan struct{}, 1), doubted: make(chan doubt, 1)}
	c.resting = newResting(c.tell)
	c.lease = time.AfterFunc(until.Sub(h.deps.Clock.Now()), func() {
		// The lease of a process that was paused may be over by now, before c.lease is set.
		h.mu.Lock()
		defer h.mu.Unlock()
		h.Counts.LeasesLost.Add(1)
		h.deps.Log.Warn("an external endpoint is no longer served: its lease was not renewed", "endpoint_id", c.id.String())
		c.retire()
	})
	c.opened = func(ok bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if ok {
			delete(h.skipped, one.ID)
			return
		}
		h.skipped.add(one, h.deps.Clock.Now())
		h.Wake() // a beat gives the lease up now, so that another hub need not wait
	}
	h.callers[one.ID] = c
	h.work.Go(func() { c.run(ctx) })
}

// leaves returns the endpoints that the hub leaves to other hubs now, because those may have the
// secret that opens their keys, and the number of all endpoints whose keys it could not open.
func (h *Hub) leaves() (now []Held, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.skipped.now(h.deps.Clock.Now()), len(h.skipped)
}

// retireAll stops serving what is held.
func (h *Hub) retireAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, c := range h.callers {
		c.retire()
		delete(h.callers, id)
	}
	h.Counts.Held.Store(0)
}

// giveUp ends the leases, so that other hubs need not wait for their end.
func (h *Hub) giveUp(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.patience())
	defer cancel()
	if err := h.deps.Store.GiveUp(limited, h.deps.Holder); err != nil {
		h.deps.Log.Warn("leases of external endpoints could not be given up, and end by themselves", "error", err)
	}
}

// resealInterval is how soon a key that was sealed under another secret is sealed under the
// current secret, and resealPage how many keys are read at once.
const (
	resealInterval = 10 * time.Minute
	resealPage     = 64
)

// reseal seals the keys of endpoints under the current secret.
func (h *Hub) reseal(ctx context.Context) {
	var after ID
	for more := true; more; {
		var err error
		after, more, err = h.deps.Store.Reseal(ctx, h.deps.Sealer.Current(), after, resealPage, h.deps.Sealer.Reseal)
		if err != nil {
			if ctx.Err() == nil {
				h.deps.Log.Warn("keys of external endpoints were not sealed anew", "error", err)
			}
			return
		}
	}
}
