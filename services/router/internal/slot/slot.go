// Package slot counts what one provider session has under way, for each of its
// models and over all of them, and learns how much it takes.
//
// A hub reports the requests in flight every 10 s or so. Between two reports
// the router adds what it has booked itself and subtracts the attempts whose
// end it hears of:
//
//	load = max(0, reported − ended since) + fresh bookings
//
// A booking is fresh until a report made well after it arrives: from then on
// the report has counted it, or the caller never dispatched. So a booking that
// is abandoned weighs at most until the next report. One that a report made just
// after it has counted too weighs twice while it runs, and not at all once it
// has ended.
//
// Whether a report counted an attempt that ends soon after cannot be told. A
// fresh booking whose end is heard within settling of the report is taken not to
// be in it, because a load that is too high only sends a request elsewhere. So
// of the attempts that last less than settling none is missing from the load,
// and those that the last report caught weigh one each until the next.
//
// A slot is free when both the model and the session have one. The session's own
// bound is the one it declared, or what its models take together when it
// declared none, and the requests that others have under way there count beside
// ours (session.go says how they are known).
//
// Capacity is what the provider declared. Each time it turns a request away the
// learnt capacity falls to what it had under way then, at most once a second and
// never below one: by no less than a quarter and by no more than a half, or to
// twice what was proven when that is less. Proven is the highest load under which
// an attempt was served, and never more than what was under way at a refusal
// since. Every RegainInterval the learnt capacity grows back: up to twice what was
// proven when it fell by one a step, or by what makes slowSteps of it when that is
// more; beyond, each step without a refusal is twice the one before. So it is
// whole again after five minutes at the latest, and what was declared decides
// neither how often a provider is asked in vain nor how fast one that has grown is
// found.
//
// Bounds: a counter keeps at most MaxBookings bookings, each for MaxAge.
package slot

import "time"

const (
	// DefaultCapacity is assumed of a provider that declares none.
	DefaultCapacity = 10
	// MaxCapacity bounds what a provider may declare.
	MaxCapacity = 4096
	// MaxBookings bounds the bookings that one counter keeps; it cannot be
	// reached while a booking needs a free slot.
	MaxBookings = MaxCapacity
	// MaxAge ends a booking whose attempt is never heard of.
	MaxAge = 10 * time.Minute
	// RegainInterval is how long learnt capacity takes to grow by a step.
	RegainInterval = 5 * time.Second
	// regainSteps are enough from nothing to all that is declared: slowSteps up to
	// twice what was proven, and doublings from one to MaxCapacity.
	regainSteps    = slowSteps + doublingsToMax
	slowSteps      = 45
	doublingsToMax = 13
	// settling is how long a request may take from its booking to the hub's
	// count: a report counts bookings older than this and no others.
	settling = 250 * time.Millisecond
	// busyPause keeps one burst of refusals from counting many times.
	busyPause = time.Second
)

type booking struct {
	at    time.Time
	fresh bool
}

// Counter counts for one session and model. It is safe for concurrent use.
type Counter struct {
	pool       *Pool // whose mutex guards what follows
	gone       bool  // the session does not count it any more
	declared   int
	reported   int
	reportedAt time.Time
	ended      int
	fresh      int
	bookings   map[string]booking
	proven     int // 0 while nothing was served
	learnt     int // 0 while nothing was learnt
	learntAt   time.Time
	slowTo     int // up to where learnt grows slowly
	busyAt     time.Time
	servedAt   time.Time // or when the first report came
}

// Report takes over what a hub says: declared capacity (0 when it says none)
// and requests in flight.
func (c *Counter) Report(capacity, inFlight int, now time.Time) {
	defer c.leave(c.enter(now))
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	c.pool.declared -= c.declared
	c.declared = min(capacity, MaxCapacity)
	c.pool.declared += c.declared
	if c.servedAt.IsZero() {
		c.servedAt = now
	}
	c.reported, c.reportedAt, c.ended = max(inFlight, 0), now, 0
	for id, b := range c.bookings {
		if b.fresh && now.Sub(b.at) > settling {
			b.fresh = false
			c.bookings[id] = b
			c.fresh--
		}
	}
}

// Book takes a slot for a request and reports whether one was free. A request
// that has one already keeps it.
func (c *Counter) Book(request string, now time.Time) bool {
	defer c.leave(c.enter(now))
	if _, held := c.bookings[request]; held {
		return true
	}
	if c.load() >= c.limit(now) || c.pool.spare() <= 0 || len(c.bookings) >= MaxBookings {
		return false
	}
	if c.bookings == nil {
		c.bookings = map[string]booking{}
	}
	c.bookings[request] = booking{at: now, fresh: true}
	c.fresh++
	return true
}

// End takes note of an attempt that has ended and is heard of now. startedAt,
// which is an estimate, reports whether the last report can have counted it. The
// result says that the session as a whole was full, so that its other models may
// have a slot now.
func (c *Counter) End(request string, startedAt, now time.Time) (wasFull bool) {
	defer c.leave(c.enter(now))
	wasFull = c.pool.spare() <= 0
	if b, held := c.bookings[request]; held {
		c.drop(request, b)
		if b.fresh && (startedAt.After(c.reportedAt) || now.Sub(c.reportedAt) < settling) {
			return wasFull
		}
	} else if startedAt.After(c.reportedAt) {
		return wasFull
	}
	c.ended = min(c.ended+1, c.reported)
	return wasFull
}

// Cancel gives back the slot of a request that never began. The result is that
// of End.
func (c *Counter) Cancel(request string) (wasFull bool) {
	// When it was does not matter: no agent can have counted it.
	defer c.leave(c.enter(time.Time{}))
	wasFull = c.pool.spare() <= 0
	if b, held := c.bookings[request]; held {
		c.drop(request, b)
	}
	return wasFull
}

// Busy takes note of a request that was turned away for want of a slot, after
// its End.
func (c *Counter) Busy(now time.Time) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	limit, proven := c.limit(now), c.proven
	// Of a burst the last refusals show best how much is really under way.
	if proven > 0 {
		c.proven = min(proven, max(1, c.load()))
		c.slowTo = min(c.slowTo, 2*c.proven)
	}
	if !c.busyAt.IsZero() && now.Sub(c.busyAt) < busyPause {
		return
	}
	least := limit / 2
	if proven > 0 {
		least = min(least, 2*proven)
	}
	c.learnt = max(1, min(limit*3/4, max(c.load(), least)))
	c.learntAt, c.busyAt, c.slowTo = now, now, 2*c.proven
}

// Served takes note of an attempt that was served, after its End.
func (c *Counter) Served(now time.Time) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.servedAt = now
	c.proven = max(c.proven, c.load()+1)
}

// Rested is how long nothing has been served as far as is known: since the last
// time, or since the model was first reported here.
func (c *Counter) Rested(now time.Time) time.Duration {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return now.Sub(c.servedAt)
}

// Expire drops bookings that are too old and tells how many.
func (c *Counter) Expire(now time.Time) int {
	defer c.leave(c.enter(now))
	dropped := 0
	for id, b := range c.bookings {
		if now.Sub(b.at) >= MaxAge {
			c.drop(id, b)
			dropped++
		}
	}
	return dropped
}

func (c *Counter) drop(request string, b booking) {
	delete(c.bookings, request)
	if b.fresh {
		c.fresh--
	}
}

// Usage is how many requests are under way and how many may be: of the model or
// of the session as a whole, whichever is closer to full.
func (c *Counter) Usage(now time.Time) (load, limit int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	load, limit = c.load(), c.limit(now)
	all, most := c.pool.load(), c.pool.limit()
	if all*limit > load*most {
		return all, most
	}
	return load, limit
}

// Room is how many requests of ours are under way for the model and how many
// may be, which is less than was declared when less was learnt, or when the rest
// of the session leaves no room.
func (c *Counter) Room(now time.Time) (inFlight, capacity int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	load := c.load()
	return load, min(c.limit(now), load+max(0, c.pool.spare()))
}

// Idle reports whether the session has nothing under way for any model, of ours
// or of others.
func (c *Counter) Idle() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.load() == 0
}

// OthersAlone tells of a session without room that ours alone would leave some: it
// is for the requests of others to end, of which nobody hears.
func (c *Counter) OthersAlone(now time.Time) bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.load() < c.limit(now) && c.pool.own < c.pool.limit()
}

// Booked is how many bookings wait for their attempt to end or to be forgotten.
func (c *Counter) Booked() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return len(c.bookings)
}

// enter locks the session for a change of the load, and leave unlocks it and
// lets the session know the change.
func (c *Counter) enter(now time.Time) (before int) {
	c.pool.mu.Lock()
	c.pool.pass(now)
	return c.load()
}

func (c *Counter) leave(before int) {
	if !c.gone {
		c.pool.add(c.load() - before)
	}
	c.pool.mu.Unlock()
}

func (c *Counter) load() int { return c.reported - c.ended + c.fresh }

func (c *Counter) limit(now time.Time) int {
	if c.learnt == 0 {
		return c.declared
	}
	steps := min(max(0, int(now.Sub(c.learntAt)/RegainInterval)), regainSteps)
	step := max(1, (c.slowTo+slowSteps-1)/slowSteps)
	slow := min(steps, (max(0, c.slowTo-c.learnt)+step-1)/step)
	doublings := min(steps-slow, doublingsToMax)
	return min(c.declared, c.learnt+slow*step+step*(1<<doublings-1))
}
