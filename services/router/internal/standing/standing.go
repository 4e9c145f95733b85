// Package standing keeps what the router has learnt of each provider and
// model: its health window and its circuit breaker. A reconnect changes
// neither.
//
// At most MaxPairs pairs are kept. A pair of which nothing was heard for a day
// is forgotten; while the registry is full, further pairs are judged as unknown
// and their attempts are not recorded.
package standing

import (
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/window"
)

// MaxPairs bounds the registry: about 130 MiB when all windows are full.
const MaxPairs = 65_536

// Pair names a provider and one of its models.
type Pair struct {
	Provider string
	Model    string
}

// Record is what is known of a pair.
type Record struct {
	Window  window.Window
	Breaker breaker.Breaker
}

// Registry is safe for concurrent use.
type Registry struct {
	records sync.Map // Pair to *Record
	size    atomic.Int64
	limit   int64
}

// New is a registry in which nothing is known.
func New() *Registry { return &Registry{limit: MaxPairs} }

// Find returns the record of a pair, or nil when nothing is known of it.
func (r *Registry) Find(p Pair) *Record {
	if v, ok := r.records.Load(p); ok {
		return v.(*Record)
	}
	return nil
}

// Get returns the record of a pair, made if need be, or nil when the registry
// is full.
func (r *Registry) Get(p Pair) *Record {
	if rec := r.Find(p); rec != nil {
		return rec
	}
	if r.size.Add(1) > r.limit {
		r.size.Add(-1)
		return nil
	}
	v, loaded := r.records.LoadOrStore(p, &Record{})
	if loaded {
		r.size.Add(-1)
	}
	return v.(*Record)
}

// Len is how many pairs are known.
func (r *Registry) Len() int { return int(r.size.Load()) }

// OpenBreakers is how many pairs are kept from serving, half open ones included.
func (r *Registry) OpenBreakers(now time.Time) int {
	n := 0
	r.records.Range(func(_, value any) bool {
		if value.(*Record).Breaker.State(now) != breaker.Closed {
			n++
		}
		return true
	})
	return n
}

// Refresh ages all windows and forgets pairs of which nothing is left. An
// attempt recorded on a pair while it is being forgotten is lost.
func (r *Registry) Refresh(now time.Time) {
	r.records.Range(func(key, value any) bool {
		rec := value.(*Record)
		if rec.Window.Refresh(now) && rec.Breaker.State(now) == breaker.Closed {
			r.records.Delete(key)
			r.size.Add(-1)
		}
		return true
	})
}
