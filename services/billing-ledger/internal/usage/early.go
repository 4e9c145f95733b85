package usage

import (
	"sync"
	"time"
)

// Usage that has a MAC but no ticket comes from a hub of the release before, which does not know tickets.
// Its request may be known only to the owner of a slice, which writes the hold within a moment. So the
// event is delivered again after EarlyPause, until the request is EarlyFor old.
const (
	EarlyFor   = 10 * time.Second
	EarlyPause = 250 * time.Millisecond
	// maxEarly bounds the events that are put off at a time. An unknown request's MAC cannot be checked, and
	// a hub that makes up requests must not fill the consumer, which holds back a thousand messages at most.
	maxEarly = 400
)

// earlyEvents counts the events that are put off.
type earlyEvents struct {
	mu    sync.Mutex
	until time.Time // when those that are counted come again
	n     int
}

// take reports whether one more event may be put off at a time.
func (e *earlyEvents) take(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !now.Before(e.until) {
		e.until, e.n = now.Add(EarlyPause), 0
	}
	e.n++
	return e.n <= maxEarly
}
