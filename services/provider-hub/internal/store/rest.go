package store

import (
	"time"

	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/uptime"
)

// keptRest is the remainder of a probation as the table provider keeps it.
type keptRest struct {
	left      *int64 // milliseconds, rounded up; nil for a whole probation
	up, total int64  // milliseconds
}

// restOf is how a remainder is kept, but for its time.
func restOf(r provider.ProbationRest) keptRest {
	k := keptRest{up: r.Before.Up.Milliseconds(), total: r.Before.Total.Milliseconds()}
	if r.Known {
		ms := (r.Left + time.Millisecond - 1).Milliseconds()
		k.left = &ms
	}
	return k
}

// of is the remainder, which counts until a time.
func (k keptRest) of(until time.Time) provider.ProbationRest {
	r := provider.ProbationRest{
		Known: k.left != nil, Until: until,
		Before: uptime.Uptime{
			Up: time.Duration(k.up) * time.Millisecond, Total: time.Duration(k.total) * time.Millisecond,
		},
	}
	if r.Known {
		r.Left = time.Duration(*k.left) * time.Millisecond
	}
	return r
}
