// Package traffic counts the requests of offers and what they earned, in the last week.
//
// The verifier's schedule follows from it: how many probes an offer gets, at which hours,
// and what they may cost. Probes are counted like all other requests, because attempts do
// not tell them apart; they are at most a tenth of them. A replica begins with what was kept
// of the week (Add), and has its hours kept (Since), because a restart would otherwise make
// each offer quiet, and give it the least number of probes, for days.
//
// At most MaxOffers offers are counted; further ones are quiet.
package traffic

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/schedule"
)

const (
	// MaxOffers bounds the offers, at about 1.5 KiB each.
	MaxOffers = 100_000
	// TopShare is the part of the offers that counts as top earners: one in so many.
	TopShare = 20
	hours    = 7 * 24
	days     = 7
)

// Week is what an offer did in the last 168 hours.
type Week struct {
	// Served are its served requests. RequestsADay counts failed ones too.
	Served       int64
	RequestsADay float64
	// Hours are its requests by hour of the UTC day.
	Hours schedule.Hours
	// PayoutADay is what it earned a day.
	PayoutADay money.NanoUSD
}

// Hour is what an offer did in the hour that begins at Begin.
type Hour struct {
	Offer            probe.Offer
	Begin            time.Time
	Requests, Served int64
	Payout           money.NanoUSD
}

// record counts one offer. A slot belongs to the hour that its mark names.
type record struct {
	marks            [hours]int64
	requests, served [hours]uint32
	payout           [hours]int64
}

// slot returns the slot of an hour, emptied where it held an older one.
func (r *record) slot(hour int64) int {
	at := int(hour % hours)
	if r.marks[at] != hour {
		r.marks[at], r.requests[at], r.served[at], r.payout[at] = hour, 0, 0, 0
	}
	return at
}

// Counter is safe for concurrent use.
type Counter struct {
	limit int

	mu     sync.Mutex
	offers map[probe.Offer]*record
}

// New returns a counter that has counted nothing.
func New() *Counter { return &Counter{limit: MaxOffers, offers: map[probe.Offer]*record{}} }

// Attempted counts a request.
func (c *Counter) Attempted(o probe.Offer, served bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.ofLocked(o)
	if r == nil {
		return
	}
	slot := r.slot(hourOf(at))
	r.requests[slot]++
	if served {
		r.served[slot]++
	}
}

// Earned counts the payout of a request. A payout below 0 is none.
func (c *Counter) Earned(o probe.Offer, payout money.NanoUSD, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.ofLocked(o); r != nil && payout > 0 {
		slot := r.slot(hourOf(at))
		if sum := r.payout[slot] + int64(payout); sum > 0 {
			r.payout[slot] = sum
		}
	}
}

// Since returns what was counted in the hours of the last week from that of a time on, in no
// order.
func (c *Counter) Since(from, now time.Time) []Hour {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Hour
	for o, r := range c.offers {
		for i, mark := range r.marks {
			if !recent(mark, hourOf(now)) || mark < hourOf(from) || r.requests[i] == 0 && r.payout[i] == 0 {
				continue
			}
			list = append(list, Hour{Offer: o, Begin: time.Unix(mark*3600, 0).UTC(), Requests: int64(r.requests[i]),
				Served: int64(r.served[i]), Payout: money.NanoUSD(r.payout[i])})
		}
	}
	return list
}

// Add adds what was counted before this process began.
func (c *Counter) Add(h Hour, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark := hourOf(h.Begin)
	if !recent(mark, hourOf(now)) {
		return
	}
	r := c.ofLocked(h.Offer)
	if r == nil {
		return
	}
	slot := r.slot(mark)
	r.requests[slot] = capped(r.requests[slot], h.Requests)
	r.served[slot] = capped(r.served[slot], h.Served)
	if sum := r.payout[slot] + int64(h.Payout); sum > r.payout[slot] {
		r.payout[slot] = sum
	}
}

// capped returns a count with more, at most the largest that there is.
func capped(count uint32, more int64) uint32 {
	return uint32(min(int64(count)+max(0, min(more, math.MaxUint32)), math.MaxUint32))
}

// ofLocked returns the record of an offer, nil where there is no room. Offers that were
// quiet for a week leave first.
func (c *Counter) ofLocked(o probe.Offer) *record {
	r := c.offers[o]
	if r == nil && len(c.offers) < c.limit {
		r = &record{}
		c.offers[o] = r
	}
	return r
}

// Forget drops the offers that were quiet for a week.
func (c *Counter) Forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, r := range c.offers {
		if !slices.ContainsFunc(r.marks[:], func(mark int64) bool { return recent(mark, hourOf(now)) }) {
			delete(c.offers, o)
		}
	}
}

// Of returns the last week of an offer.
func (c *Counter) Of(o probe.Offer, now time.Time) (w Week) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.offers[o]
	if r == nil {
		return Week{}
	}
	var payout int64
	for i, mark := range r.marks {
		if !recent(mark, hourOf(now)) {
			continue
		}
		w.Served += int64(r.served[i])
		w.RequestsADay += float64(r.requests[i]) / days
		w.Hours[mark%24] += float64(r.requests[i])
		payout += r.payout[i] / days
	}
	w.PayoutADay = money.NanoUSD(payout)
	return w
}

// TopEarners returns the twentieth of the offers that earned most in the last week. An
// offer without earnings is not among them.
func (c *Counter) TopEarners(now time.Time) map[probe.Offer]bool {
	type earner struct {
		offer  probe.Offer
		payout int64
	}
	c.mu.Lock()
	all := make([]earner, 0, len(c.offers))
	for o, r := range c.offers {
		e := earner{offer: o}
		for i, mark := range r.marks {
			if recent(mark, hourOf(now)) {
				e.payout += r.payout[i]
			}
		}
		if e.payout > 0 {
			all = append(all, e)
		}
	}
	number := (len(c.offers) + TopShare - 1) / TopShare
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b earner) int {
		return cmp.Or(cmp.Compare(b.payout, a.payout), slices.Compare(a.offer.Provider[:], b.offer.Provider[:]),
			cmp.Compare(a.offer.Model, b.offer.Model))
	})
	top := map[probe.Offer]bool{}
	for _, e := range all[:min(number, len(all))] {
		top[e.offer] = true
	}
	return top
}

func hourOf(at time.Time) int64 { return at.Unix() / 3600 }

// recent reports whether an hour is one of the last week. An hour that is yet to come,
// after a clock was set back, is not.
func recent(mark, now int64) bool { return mark > 0 && mark <= now && now-mark < hours }
