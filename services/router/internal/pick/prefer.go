package pick

import (
	"slices"
	"strings"

	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/window"
)

// Sort is the figure that takes the place of the score.
type Sort uint8

// The sorts. There is none by price, because all providers of a model ask the same price.
const (
	ByWeight Sort = iota
	ByThroughput
	ByLatency
)

// unknownQuantization is the name by which a request means providers that report no
// quantization.
const unknownQuantization = "unknown"

// Preferences say which providers the consumer wants besides a pin. They narrow and order
// the providers of a model, also the pinned one. Providers that they name are looked up.
// The others are sampled unless there is a sort, and walked where a sample has too few.
type Preferences struct {
	// Order lists the providers that are tried before all others. A degraded provider
	// keeps its place, because the consumer's word is stronger than a score.
	Order []string
	// Only lists who may serve; empty for all. Ignore lists who may not.
	Only, Ignore []string
	// Quantizations lists the quantizations that may serve; empty for all.
	Quantizations []string
	Sort          Sort
}

// ordering reports whether the preferences decide the order instead of chance.
func (p *Preferences) ordering() bool { return len(p.Order) > 0 || p.Sort != ByWeight }

// scanned is the longest list that is searched name by name.
const scanned = 8

// nameSet is a list of providers in which names are looked up.
type nameSet struct {
	list []string
	at   map[string]int // the place of each name in a longer list
}

func (r *nameSet) take(list []string) {
	r.list = list
	clear(r.at)
	if len(list) <= scanned {
		return
	}
	if r.at == nil {
		r.at = make(map[string]int, len(list))
	}
	for i, p := range slices.Backward(list) {
		r.at[p] = i // a name that is given twice has its first place
	}
}

// find returns a provider's place, or -1.
func (r *nameSet) find(provider string) int {
	if len(r.list) <= scanned {
		return slices.Index(r.list, provider)
	}
	if i, ok := r.at[provider]; ok {
		return i
	}
	return -1
}

// want reports whether the preferences let a seat serve.
func (s *search) want(seat *presence.Seat) bool {
	provider := seat.Session.Provider
	switch {
	case len(s.wanted.list) > 0 && s.wanted.find(provider) < 0:
		return false
	case s.ignored.find(provider) >= 0:
		return false
	case len(s.req.Prefer.Quantizations) == 0:
		return true
	}
	told := seat.Offer.Quantization
	if told == "" {
		told = unknownQuantization
	}
	return slices.ContainsFunc(s.req.Prefer.Quantizations, func(q string) bool { return strings.EqualFold(q, told) })
}

// place returns a provider's place in the order. A provider that the order does not name
// comes after all others.
func (s *search) place(provider string) int {
	if i := s.order.find(provider); i >= 0 {
		return i
	}
	return len(s.order.list)
}

func (s *search) ordered(seat *presence.Seat) bool {
	return s.order.find(seat.Session.Provider) >= 0
}

// figure returns what seats are sorted by: more is better, and 0 is not known.
func (p *Preferences) figure(h window.Health) float64 {
	switch {
	case p.Sort == ByThroughput:
		return h.TokensPerSecond
	case p.Sort == ByLatency && h.FirstContent > 0:
		return 1 / h.FirstContent.Seconds()
	}
	return 0
}

// preferred returns the option of a lane that the preferences put first, or -1 where they
// leave it to chance.
func (s *search) preferred(lane []option) int {
	prefer := &s.req.Prefer
	if !prefer.ordering() {
		return -1
	}
	best := 0
	for i := range lane {
		if s.before(&lane[i], &lane[best]) {
			best = i
		}
	}
	if prefer.Sort == ByWeight && lane[best].place == len(prefer.Order) {
		return -1
	}
	return best
}

// before reports whether the preferences put a before b.
func (s *search) before(a, b *option) bool {
	if a.place != b.place {
		return a.place < b.place
	}
	if x, y := a.seat.Session.Tier(), b.seat.Session.Tier(); x != y {
		return x < y // of one provider in the order: all other options are of one tier
	}
	if a.figure != b.figure {
		return a.figure > b.figure
	}
	return s.better(a, b)
}
