package external

import "time"

// MaxSkipped bounds the endpoints that a hub leaves to other hubs. Beyond it the hub keeps the leases
// of endpoints whose keys it cannot open.
const MaxSkipped = 1024

// After firstRetry a hub tries an endpoint again whose key it could not open, and after twice as long
// each further time, up to lastRetry. It tries only endpoints that no other hub holds by then. An
// endpoint that the hub has not met again for forgetAfter is shared among hubs like any other.
const (
	firstRetry  = time.Minute
	lastRetry   = 16 * time.Minute
	forgetAfter = 24 * time.Hour
)

// unreadable are the endpoints whose keys no secret of this hub opens, each at the revision that the
// hub met. The hub's lock guards it.
type unreadable map[ID]*skipped

type skipped struct {
	revision int64
	pause    time.Duration
	until    time.Time
}

// add notes an endpoint whose key could not be opened.
func (u unreadable) add(one Held, now time.Time) {
	s := u[one.ID]
	if s == nil {
		if len(u) >= MaxSkipped {
			return
		}
		s = &skipped{}
		u[one.ID] = s
	}
	if s.revision != one.Revision {
		s.revision, s.pause = one.Revision, 0
	}
	s.pause = min(max(2*s.pause, firstRetry), lastRetry)
	s.until = now.Add(s.pause)
}

// now returns the endpoints that the hub does not try yet, and forgets those that it has not met for
// long.
func (u unreadable) now(now time.Time) []Held {
	var list []Held
	for id, s := range u {
		switch {
		case now.Before(s.until):
			list = append(list, Held{ID: id, Revision: s.revision})
		case now.Sub(s.until) > forgetAfter:
			delete(u, id)
		}
	}
	return list
}
