// Package breaker keeps requests away from a provider that fails a model again
// and again, and lets it back through one probe at a time.
//
// Threshold failures in a row open the breaker. After a rest of FirstRest,
// doubled with each further opening up to MaxRest, it is half open: one request
// may try. If that is served the breaker closes and the rest starts over; if it
// fails the breaker opens again. A probe that is never heard of is given up
// after ProbeTimeout and another may try.
package breaker

import (
	"sync"
	"time"
)

const (
	// Threshold is how many failures in a row open a breaker.
	Threshold = 5
	// FirstRest is how long a breaker stays open the first time.
	FirstRest = 10 * time.Second
	// MaxRest bounds the doubling of the rest.
	MaxRest = 5 * time.Minute
	// ProbeTimeout is how long the outcome of a probe is waited for.
	ProbeTimeout = 30 * time.Second
)

// State of a breaker.
type State uint8

// The states of a breaker.
const (
	// Closed lets every request through.
	Closed State = iota
	// Open lets none through.
	Open
	// HalfOpen lets one probe through at a time.
	HalfOpen
)

// trigger is what can move a breaker.
type trigger uint8

const (
	success  trigger = iota // a request was served
	failure                 // one failed, and more are needed to open
	strike                  // one failed, and that makes Threshold in a row
	rested                  // the rest is over
	triggers                // how many there are
)

// transitions is the whole behaviour: from state, by trigger, to state. A late
// success while open changes nothing: it began before the trouble.
var transitions = [3][triggers]State{
	Closed:   {success: Closed, failure: Closed, strike: Open, rested: Closed},
	Open:     {success: Open, failure: Open, strike: Open, rested: HalfOpen},
	HalfOpen: {success: Closed, failure: Open, strike: Open, rested: HalfOpen},
}

// Breaker guards one provider and model. The zero value is closed. It is safe
// for concurrent use.
type Breaker struct {
	mu       sync.Mutex
	state    State
	failures int // in a row, while closed
	openings int // in a row, without a close between
	until    time.Time
	probing  bool
	probedAt time.Time
}

// State is where the breaker stands now.
func (b *Breaker) State(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest(now)
	return b.state
}

// Admits tells whether a request may go through now, and whether it would be
// a probe, for which Probe must be called.
func (b *Breaker) Admits(now time.Time) (admitted, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest(now)
	switch b.state {
	case Closed:
		return true, false
	case HalfOpen:
		return b.mayProbe(now), true
	default:
		return false, false
	}
}

// Probe claims the one probe of a half-open breaker and tells whether the
// caller got it. On a closed one it is granted and claims nothing.
func (b *Breaker) Probe(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest(now)
	switch {
	case b.state == Closed:
		return true
	case b.state == HalfOpen && b.mayProbe(now):
		b.probing, b.probedAt = true, now
		return true
	default:
		return false
	}
}

func (b *Breaker) mayProbe(now time.Time) bool {
	return !b.probing || now.Sub(b.probedAt) >= ProbeTimeout
}

// Served takes note of a request that was served.
func (b *Breaker) Served(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest(now)
	b.failures = 0
	b.fire(success, now)
}

// Failed takes note of a request that the provider failed.
func (b *Breaker) Failed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest(now)
	b.failures++
	if b.failures >= Threshold {
		b.fire(strike, now)
		return
	}
	b.fire(failure, now)
}

func (b *Breaker) rest(now time.Time) {
	if b.state == Open && !now.Before(b.until) {
		b.fire(rested, now)
	}
}

func (b *Breaker) fire(t trigger, now time.Time) {
	from := b.state
	b.state = transitions[from][t]
	if b.state == from {
		return
	}
	b.failures, b.probing = 0, false
	switch b.state {
	case Open:
		b.until = now.Add(restAfter(b.openings))
		b.openings++
	case Closed:
		b.openings = 0
	case HalfOpen:
	}
}

// restAfter is FirstRest·2^openings, at most MaxRest.
func restAfter(openings int) time.Duration {
	if openings > 5 {
		return MaxRest
	}
	return min(FirstRest<<openings, MaxRest)
}
