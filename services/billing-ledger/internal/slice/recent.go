package slice

import (
	"time"

	"svc.internal/pkg/ids"
)

const (
	// maxIDAge is how old an id may be by its own time: it is made before a gateway reads the body of its
	// request. maxIDAhead is how far it may be ahead of the database's time.
	maxIDAge   = 5 * time.Second
	maxIDAhead = time.Second
	// remembered is how long an owner at least remembers a request that it admitted. It is longer than
	// maxIDAge and maxIDAhead together: an id is too old when it is forgotten, wherever it came from.
	remembered = 8 * time.Second
	// maxRecent bounds the ids of one generation.
	maxRecent = 1 << 16
)

// recent remembers ids for at least remembered and at most twice as long, in two generations.
type recent struct {
	current, last map[ids.RequestID]struct{}
	since         time.Time
}

// has reports whether the id is remembered, or cannot be remembered because there are too many.
func (r *recent) has(id ids.RequestID, now time.Time) bool {
	if now.Sub(r.since) >= remembered {
		if now.Sub(r.since) >= 2*remembered {
			clear(r.current)
		}
		r.current, r.last, r.since = r.last, r.current, now
		clear(r.current)
	}
	if len(r.current) >= maxRecent {
		return true
	}
	_, isCurrent := r.current[id]
	_, isLast := r.last[id]
	return isCurrent || isLast
}

// add remembers an id.
func (r *recent) add(id ids.RequestID) {
	if r.current == nil {
		r.current = map[ids.RequestID]struct{}{}
	}
	r.current[id] = struct{}{}
}
