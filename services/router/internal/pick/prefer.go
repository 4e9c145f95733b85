package pick

import (
	"slices"
	"strings"

	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/window"
)

// Sort is what takes the place of the weights.
type Sort uint8

// The sorts. All providers of a model ask the same price, so there is none by
// price.
const (
	ByWeight Sort = iota
	ByThroughput
	ByLatency
)

// unknownQuantization is how a request names providers that tell none.
const unknownQuantization = "unknown"

// Preferences are whom the consumer wants besides a pin. They narrow and order
// the providers of a model, the pinned one included. Providers that they name
// are looked up; of the others a sample is taken unless there is a sort, and all
// seats are walked when it shows too little.
type Preferences struct {
	// Order lists who is tried before all others. A degraded provider keeps
	// its place in it, because the consumer's word is stronger than a weight.
	Order []string
	// Only lists who may serve; empty for everybody. Ignore lists who may not.
	Only, Ignore []string
	// Quantizations are those that may serve; empty for all.
	Quantizations []string
	Sort          Sort
}

// ordering reports whether chance has no say in the order.
func (p *Preferences) ordering() bool { return len(p.Order) > 0 || p.Sort != ByWeight }

// scanned is up to how many names a look-up compares one by one.
const scanned = 8

// nameSet is a list of providers to look names up in.
type nameSet struct {
	list []string
	at   map[string]int // where each stands, of a longer list
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

// find is where a provider stands, or -1.
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

// place is where a provider stands in the order, behind all others when it is
// not named there.
func (s *search) place(provider string) int {
	if i := s.order.find(provider); i >= 0 {
		return i
	}
	return len(s.order.list)
}

func (s *search) ordered(seat *presence.Seat) bool {
	return s.order.find(seat.Session.Provider) >= 0
}

// figure is what seats are sorted by, more being better; 0 when it is not known.
func (p *Preferences) figure(h window.Health) float64 {
	switch {
	case p.Sort == ByThroughput:
		return h.TokensPerSecond
	case p.Sort == ByLatency && h.FirstContent > 0:
		return 1 / h.FirstContent.Seconds()
	}
	return 0
}

// preferred is the option of a lane that the preferences put first; -1 when they
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
	if a.figure != b.figure {
		return a.figure > b.figure
	}
	return s.better(a, b)
}
