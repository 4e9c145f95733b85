// Package years simulates what providers' probes say: honest years and cheats. Tests of
// package evidence and the laboratory of `make verification` use it to measure how often
// an honest provider crosses a threshold and how soon a cheat does.
//
// A Provider is a list of kinds of probe. A probe is of one kind, drawn by the kinds'
// weights, and feeds the families of its parts. A part's family exceeds at its rate, or,
// for family R, its likelihood ratios are drawn from laws. Observations are independent;
// the proofs of package evidence hold without independence, figures do not.
//
// There is no clock here: a year is a number of probes. Only Career has days, which are 48
// slots each, and decides by package ladder. All chance comes from a seed, so that the same call gives the same
// figure on every machine.
package years

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"svc.internal/services/verifier/internal/evidence"
)

// Source is seeded chance: Melissa O'Neill's PCG. It is not safe for concurrent use.
type Source struct{ pcg *rand.PCG }

// NewSource returns the source of a seed and a stream. Streams of one seed are
// independent, so that years can be simulated side by side.
func NewSource(seed, stream uint64) Source { return Source{pcg: rand.NewPCG(seed, stream)} }

// Float returns a number in [0, 1), a multiple of 2⁻⁵³.
func (s Source) Float() float64 { return float64(s.pcg.Uint64()>>11) / (1 << 53) }

// Below reports true with chance p.
func (s Source) Below(p float64) bool { return s.Float() < p }

// Index returns a whole number in [0, n).
func (s Source) Index(n int) int { return min(n-1, int(s.Float()*float64(n))) }

// Weighted returns an index of weights, drawn by them.
func (s Source) Weighted(weights []float64) int {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	x := s.Float() * total
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// Law is a discrete law of an alternative's likelihood ratio.
type Law struct {
	Alternative evidence.Alternative
	Bound       evidence.RatioBound
	Ratios      []float64
	Chances     []float64 // as long as Ratios; they add up to 1
}

// Part is what a probe says for one family.
type Part struct {
	Family evidence.Family
	Rate   float64 // the chance of b = 1; unused for evidence.Sampled
	Laws   []Law   // for evidence.Sampled, one for each alternative
}

// Kind is a kind of probe.
type Kind struct {
	Weight float64
	Parts  []Part
}

// Provider is how a provider's probes end, by kind.
type Provider []Kind

// Of returns a provider whose every probe feeds one family, which exceeds at a rate.
func Of(f evidence.Family, rate float64) Provider {
	return Provider{{Weight: 1, Parts: []Part{{Family: f, Rate: rate}}}}
}

// Full returns a provider whose every probe feeds all families: b = 1 at a rate, and
// sampled answers by a law.
func Full(rate float64, law Law) Provider {
	var parts []Part
	for _, f := range evidence.Families() {
		part := Part{Family: f, Rate: rate}
		if f == evidence.Sampled {
			part = Part{Family: f, Laws: []Law{law}}
		}
		parts = append(parts, part)
	}
	return Provider{{Weight: 1, Parts: parts}}
}

// HonestLaw returns a law on the border of honesty: the expectation of the ratio is exactly
// its bound of 1. Most answers speak a little for honesty, and few speak much against it.
func HonestLaw(g evidence.Alternative) Law {
	return Law{Alternative: g, Bound: 1, Ratios: []float64{.5, 2, 16}, Chances: []float64{.8125, .171875, .015625}}
}

// Probe draws the kind and the observations of one probe and appends them to into. It
// fails for a provider that package evidence refuses.
func (p Provider) Probe(s Source, into []evidence.Observation) ([]evidence.Observation, error) {
	kind := &p[0]
	if len(p) > 1 {
		kind = &p[p.kind(s)]
	}
	for i := range kind.Parts {
		o, err := kind.Parts[i].observe(s)
		if err != nil {
			return nil, err
		}
		into = append(into, o)
	}
	return into, nil
}

func (p Provider) kind(s Source) int {
	total := 0.0
	for i := range p {
		total += p[i].Weight
	}
	x := s.Float() * total
	for i := range p {
		if x -= p[i].Weight; x < 0 {
			return i
		}
	}
	return len(p) - 1
}

func (part *Part) observe(s Source) (evidence.Observation, error) {
	if part.Family != evidence.Sampled {
		return evidence.Judged(part.Family, s.Below(part.Rate))
	}
	var r evidence.Ratios
	for i := range part.Laws {
		law := &part.Laws[i]
		if err := r.Set(law.Alternative, law.Ratios[s.Weighted(law.Chances)], law.Bound); err != nil {
			return evidence.Observation{}, fmt.Errorf("draw a likelihood ratio: %w", err)
		}
	}
	return evidence.Weighed(r)
}

// Quantile returns the smallest of the numbers that at least the share q of them does not
// exceed. It sorts the numbers.
func Quantile(numbers []int, q float64) int {
	slices.Sort(numbers)
	return numbers[max(0, min(len(numbers)-1, int(float64(len(numbers))*q+.999999)-1))]
}
