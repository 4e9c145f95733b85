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
// the providers of a model, the pinned one included. Whoever uses them has the
// seats walked: a sample could miss all that are wanted.
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

func (p *Preferences) given() bool {
	return p.ordering() || len(p.Only)+len(p.Ignore)+len(p.Quantizations) > 0
}

// ordering tells whether chance has no say in the order.
func (p *Preferences) ordering() bool { return len(p.Order) > 0 || p.Sort != ByWeight }

// want tells whether a seat may serve.
func (p *Preferences) want(seat *presence.Seat) bool {
	provider := seat.Session.Provider
	switch {
	case len(p.Only) > 0 && !slices.Contains(p.Only, provider):
		return false
	case slices.Contains(p.Ignore, provider):
		return false
	case len(p.Quantizations) == 0:
		return true
	}
	told := seat.Offer.Quantization
	if told == "" {
		told = unknownQuantization
	}
	return slices.ContainsFunc(p.Quantizations, func(q string) bool { return strings.EqualFold(q, told) })
}

// place is where a provider stands in the order, behind all others when it is
// not named there.
func (p *Preferences) place(provider string) int {
	if i := slices.Index(p.Order, provider); i >= 0 {
		return i
	}
	return len(p.Order)
}

func (p *Preferences) ordered(provider string) bool { return p.place(provider) < len(p.Order) }

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
		if s.before(lane[i], lane[best]) {
			best = i
		}
	}
	if prefer.Sort == ByWeight && !prefer.ordered(lane[best].seat.Session.Provider) {
		return -1
	}
	return best
}

// before tells whether the preferences put a before b.
func (s *search) before(a, b option) bool {
	prefer := &s.req.Prefer
	if x, y := prefer.place(a.seat.Session.Provider), prefer.place(b.seat.Session.Provider); x != y {
		return x < y
	}
	if a.figure != b.figure {
		return a.figure > b.figure
	}
	return s.better(a, b)
}
