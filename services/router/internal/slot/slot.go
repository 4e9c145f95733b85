// Package slot counts what one provider session has under way for one model,
// and learns how much it takes.
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
// Capacity is what the provider declared. Each time it turns a request away
// the learnt capacity falls by a quarter, at most once a second and never
// below one; then it grows back by one every RegainEvery.
//
// Bounds: a counter keeps at most MaxBookings bookings, each for MaxAge.
package slot

import (
	"sync"
	"time"
)

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
	// RegainEvery is how long learnt capacity takes to grow by one.
	RegainEvery = 5 * time.Second
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
	mu         sync.Mutex
	declared   int
	reported   int
	reportedAt time.Time
	ended      int
	fresh      int
	bookings   map[string]booking
	learnt     int // 0 while nothing was learnt
	learntAt   time.Time
	busyAt     time.Time
}

// New is a counter of which nothing has been reported.
func New() *Counter { return &Counter{declared: DefaultCapacity} }

// Report takes over what a hub says: declared capacity (0 when it says none)
// and requests in flight.
func (c *Counter) Report(capacity, inFlight int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	c.declared = min(capacity, MaxCapacity)
	c.reported, c.reportedAt, c.ended = max(inFlight, 0), now, 0
	for id, b := range c.bookings {
		if b.fresh && now.Sub(b.at) > settling {
			b.fresh = false
			c.bookings[id] = b
			c.fresh--
		}
	}
}

// Book takes a slot for a request and tells whether one was free. A request
// that has one already keeps it.
func (c *Counter) Book(request string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.bookings[request]; held {
		return true
	}
	if c.load() >= c.limit(now) || len(c.bookings) >= MaxBookings {
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
// which is an estimate, tells whether the last report can have counted it.
func (c *Counter) End(request string, startedAt, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, held := c.bookings[request]; held {
		c.drop(request, b)
		if b.fresh && (startedAt.After(c.reportedAt) || now.Sub(c.reportedAt) < settling) {
			return
		}
	} else if startedAt.After(c.reportedAt) {
		return
	}
	c.ended = min(c.ended+1, c.reported)
}

// Cancel gives back the slot of a request that never began.
func (c *Counter) Cancel(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, held := c.bookings[request]; held {
		c.drop(request, b)
	}
}

// Busy takes note of a request that was turned away for want of a slot.
func (c *Counter) Busy(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.busyAt.IsZero() && now.Sub(c.busyAt) < busyPause {
		return
	}
	c.learnt = max(1, c.limit(now)*3/4)
	c.learntAt, c.busyAt = now, now
}

// Expire drops bookings that are too old and tells how many.
func (c *Counter) Expire(now time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Usage is how many requests are under way and how many may be.
func (c *Counter) Usage(now time.Time) (load, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(), c.limit(now)
}

// Booked is how many bookings wait for their attempt to end or to be forgotten.
func (c *Counter) Booked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.bookings)
}

func (c *Counter) load() int { return c.reported - c.ended + c.fresh }

func (c *Counter) limit(now time.Time) int {
	if c.learnt == 0 {
		return c.declared
	}
	regained := max(0, int(now.Sub(c.learntAt)/RegainEvery))
	return min(c.declared, c.learnt+regained)
}
