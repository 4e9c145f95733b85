// Package slot counts the requests that are under way at one provider session, for
// each of its models and for all of them, and learns how many it takes.
//
// A hub reports the requests in flight about every 10 s. Between two reports the
// router adds what it has booked itself, and subtracts the attempts whose end it hears:
//
//	load = max(0, reported − ended since) + fresh bookings
//
// A booking is fresh until a report comes that was made well after it. From then on the
// report has counted the booking, or the caller never dispatched. So an abandoned
// booking weighs until the next report at the latest. A booking that a report counts
// although it was made just before weighs twice while it runs, and not at all once it
// has ended.
//
// Nobody knows whether a report has counted an attempt that ends soon after it. A fresh
// booking whose end is heard within settling of the report counts as not in the report,
// because a load that is too high only sends a request elsewhere. So the load misses
// none of the attempts that take less than settling, and each of them that the last
// report did count weighs one until the next report.
//
// A slot is free if both the model and the session have room for a request. The bound of
// the session is the sum of the capacities of its models, or the capacity that the
// session declared if that is smaller. The requests of others on the session count beside
// ours (session.go says how they are known).
//
// The capacity is what the provider declared. Each time the provider turns a request
// away, the learnt capacity falls to the number of requests under way, at most once a
// second and never below one. It falls by at least a quarter, and at most by a half or
// to twice the proven load, whichever is lower. The proven load is the highest load
// under which an attempt was served, and never more than what was under way at a later
// refusal. Every RegainInterval the learnt capacity grows back: up to twice the load
// that was proven when it fell in steps of one, or in slowSteps steps where those would
// be more; beyond that, each step without a refusal is twice the step before. So the
// whole capacity is back after five minutes at the latest. What a provider declared
// decides neither how often it is asked in vain, nor how soon the router finds that it
// has grown.
//
// A counter keeps at most MaxBookings bookings, each for at most MaxAge.
package slot

import "time"

const (
	// DefaultCapacity is the capacity of a provider that declares none.
	DefaultCapacity = 10
	// MaxCapacity bounds what a provider may declare.
	MaxCapacity = 4096
	// MaxBookings bounds the bookings of one counter. It cannot be reached while each
	// booking needs a free slot.
	MaxBookings = MaxCapacity
	// MaxAge is after how long a booking ends whose attempt is never heard of.
	MaxAge = 10 * time.Minute
	// RegainInterval is the time between two steps in which learnt capacity grows.
	RegainInterval = 5 * time.Second
	// regainSteps suffice to grow from nothing to all that is declared: slowSteps up to
	// twice the proven load, and doublings from one to MaxCapacity.
	regainSteps    = slowSteps + doublingsToMax
	slowSteps      = 45
	doublingsToMax = 13
	// settling is how long a request may take from its booking to the hub's count. A
	// report counts the bookings that are older than this, and no others.
	settling = 250 * time.Millisecond
	// busyPause is the least time between two refusals that count, so that a burst counts
	// once.
	busyPause = time.Second
)

type booking struct {
	at    time.Time
	fresh bool
}

// Counter counts for one session and model. It is safe for concurrent use.
type Counter struct {
	pool       *Pool // its mutex guards what follows
	gone       bool  // the session no longer counts it
	declared   int
	reported   int
	reportedAt time.Time
	ended      int
	fresh      int
	bookings   map[string]booking
	proven     int // 0 until an attempt was served
	learnt     int // 0 until something was learnt
	learntAt   time.Time
	slowTo     int // where learnt stops growing slowly
	busyAt     time.Time
	servedAt   time.Time // the last time that an attempt was served, or the time of the first report
}

// Report takes over what a hub reports: the declared capacity, 0 for none, and the
// requests in flight.
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

// Book books a slot for a request and reports whether it has one. A request that has a
// slot already keeps it.
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

// End takes note of an attempt whose end is heard now. startedAt is an estimate, by which
// End decides whether the last report can have counted the attempt. It reports whether
// the session as a whole was full, so that its other models may have a slot now.
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

// Cancel gives back the slot of a request that never began. It reports what End does.
func (c *Counter) Cancel(request string) (wasFull bool) {
	// The time does not matter, because no agent can have counted the request.
	defer c.leave(c.enter(time.Time{}))
	wasFull = c.pool.spare() <= 0
	if b, held := c.bookings[request]; held {
		c.drop(request, b)
	}
	return wasFull
}

// Busy takes note, after End, of a request that was turned away because no slot was free.
func (c *Counter) Busy(now time.Time) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	limit, proven := c.limit(now), c.proven
	// The last refusals of a burst show best how much is really under way.
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

// Served takes note, after End, of an attempt that was served.
func (c *Counter) Served(now time.Time) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.servedAt = now
	c.proven = max(c.proven, c.load()+1)
}

// Rested returns for how long, as far as is known, the model has served nothing: since it
// last did, or since it was first reported here.
func (c *Counter) Rested(now time.Time) time.Duration {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return now.Sub(c.servedAt)
}

// Expire drops bookings that are too old, and returns how many.
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

// Usage returns how many requests are under way and how many may be: of the model or of
// the session as a whole, whichever is closer to full.
func (c *Counter) Usage(now time.Time) (load, limit int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	load, limit = c.load(), c.limit(now)
	all, allLimit := c.pool.load(), c.pool.limit()
	if all*limit > load*allLimit {
		return all, allLimit
	}
	return load, limit
}

// Room returns how many requests of ours are under way for the model and how many may be.
// That is less than declared if less was learnt, or if the rest of the session leaves no
// room.
func (c *Counter) Room(now time.Time) (inFlight, capacity int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	load := c.load()
	return load, min(c.limit(now), load+max(0, c.pool.spare()))
}

// Idle reports whether the session has no request under way for any model, neither of
// ours nor of others.
func (c *Counter) Idle() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.load() == 0
}

// OthersAlone reports whether a session without room would have some if only our requests
// counted. Then it has to wait for the requests of others, whose ends nobody hears.
func (c *Counter) OthersAlone(now time.Time) bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.load() < c.limit(now) && c.pool.own < c.pool.limit()
}

// Booked returns how many bookings wait for their attempt to end or to be forgotten.
func (c *Counter) Booked() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return len(c.bookings)
}

// enter locks the session for a change of the load. leave unlocks it and tells the
// session of the change.
func (c *Counter) enter(now time.Time) (before int) {
	c.pool.mu.Lock()
	c.pool.passLocked(now)
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
