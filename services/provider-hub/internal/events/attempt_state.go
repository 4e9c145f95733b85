package events

import "svc.internal/services/provider-hub/internal/journal"

// maxRecent is how many closed attempts are remembered, because their work receipts are
// on their way. Each takes about 60 bytes.
const maxRecent = 1 << 15

// AttemptState is what a hub knows of an attempt.
type AttemptState uint8

// The states. Unsettled is an attempt that the journal holds. Closed is an attempt that
// is settled or for which nothing is due; the last maxRecent of this process are
// remembered. Unknown is any other attempt, such as an attempt of another hub.
const (
	Unknown AttemptState = iota
	Unsettled
	Closed
)

// recent remembers the last keys.
type recent struct {
	keys map[journal.Key]struct{}
	ring []journal.Key
	next int
}

func (r *recent) add(key journal.Key) {
	if r.keys == nil {
		r.keys = map[journal.Key]struct{}{}
	}
	if _, twice := r.keys[key]; twice {
		return
	}
	r.keys[key] = struct{}{}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, key)
		return
	}
	delete(r.keys, r.ring[r.next])
	r.ring[r.next] = key
	r.next = (r.next + 1) % maxRecent
}

func (r *recent) has(key journal.Key) bool {
	_, ok := r.keys[key]
	return ok
}

// State returns what is known of an attempt.
func (u *Usage) State(key journal.Key) AttemptState {
	u.mu.Lock()
	p, closed := u.pending[key], u.closed.has(key)
	u.mu.Unlock()
	switch j := u.journal.Load(); {
	case closed:
		return Closed
	case p != nil, j != nil && j.Holds(key):
		return Unsettled
	default:
		return Unknown
	}
}

// close notes that attempts need no work receipt.
func (u *Usage) close(keys ...journal.Key) {
	if len(keys) == 0 {
		return
	}
	u.mu.Lock()
	for _, key := range keys {
		u.closed.add(key)
	}
	u.mu.Unlock()
	u.onClosed(keys)
}
