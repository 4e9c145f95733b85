// Package health keeps what the router has learnt about each provider and model: a health
// window and a circuit breaker. A reconnect changes neither. Refresh sums up what the
// attempts of all providers say about a model, its usual time to first content.
//
// At most MaxPairs pairs are kept. A pair of which nothing was heard for a day is
// forgotten. While the registry is full, further pairs count as unknown and their
// attempts are not recorded.
package health

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/window"
)

// MaxPairs bounds the registry, which takes about 130 MiB when all windows are full.
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
	paces   atomic.Pointer[map[string]window.Pace]
	size    atomic.Int64
	limit   int64
}

// New returns a registry in which nothing is known.
func New() *Registry { return &Registry{limit: MaxPairs} }

// Find returns the record of a pair, or nil where nothing is known of it.
func (r *Registry) Find(p Pair) *Record {
	if v, ok := r.records.Load(p); ok {
		return v.(*Record)
	}
	return nil
}

// Get returns the record of a pair and makes it where there is none. It returns nil while
// the registry is full.
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

// Len returns how many pairs are known.
func (r *Registry) Len() int { return int(r.size.Load()) }

// Breakers counts the pairs whose breaker is open or half open, and the suspected
// pairs.
func (r *Registry) Breakers(now time.Time) (open, suspected int) {
	r.records.Range(func(_, value any) bool {
		if s := value.(*Record).Breaker.State(now); s == breaker.Open || s == breaker.HalfOpen {
			open++
		} else if s == breaker.Suspected {
			suspected++
		}
		return true
	})
	return open, suspected
}

// Trouble is a pair whose breaker is not closed.
type Trouble struct {
	Pair
	State breaker.State
}

// severity orders the states of breakers, the worst first.
var severity = map[breaker.State]int{breaker.Open: 0, breaker.HalfOpen: 1, breaker.Suspected: 2}

// Troubled returns the pairs whose breaker is not closed, the worst first, and how many there are, of
// which it returns at most limit.
func (r *Registry) Troubled(now time.Time, limit int) (list []Trouble, total int) {
	r.records.Range(func(key, value any) bool {
		if s := value.(*Record).Breaker.State(now); s != breaker.Closed {
			list = append(list, Trouble{key.(Pair), s})
		}
		return true
	})
	slices.SortFunc(list, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(severity[a.State], severity[b.State]), strings.Compare(a.Provider, b.Provider),
			strings.Compare(a.Model, b.Model))
	})
	return list[:min(len(list), limit)], len(list)
}

// Pace returns how the time to first content of a model depends on the prompt: the median
// of its providers' paces at the last Refresh. So many attempts on one provider count no
// more than few on another. The zero Pace is not known.
func (r *Registry) Pace(model string) window.Pace {
	if paces := r.paces.Load(); paces != nil {
		return (*paces)[model]
	}
	return window.Pace{}
}

// gathered holds the paces of one model's providers.
type gathered struct{ bases, slopes []time.Duration }

// Refresh ages all windows and forgets empty pairs. An attempt that is recorded on a pair
// while the pair is being forgotten is lost.
func (r *Registry) Refresh(now time.Time) {
	models := map[string]*gathered{}
	defer func() { r.publish(models) }()
	r.records.Range(func(key, value any) bool {
		rec := value.(*Record)
		if rec.Window.Refresh(now) && rec.Breaker.Idle(now) {
			r.records.Delete(key)
			r.size.Add(-1)
			return true
		}
		gather(models, key.(Pair).Model, &rec.Window, now)
		return true
	})
}

// gather adds what one provider says about a model.
func gather(models map[string]*gathered, model string, w *window.Window, now time.Time) {
	if w.Health().Samples == 0 {
		return
	}
	p := w.Pace(now)
	if p.Base == 0 && p.Slope == 0 {
		return
	}
	g := models[model]
	if g == nil {
		g = &gathered{}
		models[model] = g
	}
	if p.Base > 0 {
		g.bases = append(g.bases, p.Base)
	}
	if p.Slope > 0 {
		g.slopes = append(g.slopes, p.Slope)
	}
}

// publish makes the paces of all models visible to readers.
func (r *Registry) publish(models map[string]*gathered) {
	paces := make(map[string]window.Pace, len(models))
	for model, g := range models {
		var p window.Pace
		if len(g.bases) > 0 {
			p.Base = window.Median(g.bases)
		}
		if len(g.slopes) > 0 {
			p.Slope = window.Median(g.slopes)
		}
		paces[model] = p
	}
	r.paces.Store(&paces)
}
