package evidence

import (
	"errors"
	"fmt"
	"math"
)

// Alternative is what family R weighs an answer against: another distribution g that may
// have sampled the answer.
type Alternative uint8

// The alternatives, in the order of all sums.
const (
	// Class8 to Class2 are the model's quantization classes; only those cheaper than the
	// stated class are asked.
	Class8 Alternative = iota
	Class6
	Class5
	Class4
	Class3
	Class2
	// Sibling is a smaller model of the same series.
	Sibling
	// Cooler is the model itself at temperature .7.
	Cooler
	// Hotter is the model itself at temperature 1.4.
	Hotter

	// Alternatives is the number of alternatives.
	Alternatives = iota
)

var alternativeNames = [Alternatives]string{
	"8-bit", "6-bit", "5-bit", "4-bit", "3-bit", "2-bit", "sibling", "cooler", "hotter",
}

// ParseAlternative returns the alternative of a name that String returned.
func ParseAlternative(name string) (Alternative, error) {
	for g := range Alternative(Alternatives) {
		if alternativeNames[g] == name {
			return g, nil
		}
	}
	return 0, fmt.Errorf("%w: the alternative %.40q", ErrRatio, name)
}

// String returns the alternative's name, which is also its name in storage.
func (g Alternative) String() string {
	if g >= Alternatives {
		return fmt.Sprintf("alternative %d", uint8(g))
	}
	return alternativeNames[g]
}

const (
	// MaxRatio is where likelihood ratios are clipped.
	MaxRatio = 20
	// MinRatioSamples is the smallest calibration for which RatioBound is proven.
	MinRatioSamples = 5
	// ratioConfidence is L = ln(1.8·10⁸) = ln(2/δ) for δ = 10⁻⁷/9.
	ratioConfidence = 19.0084674088544841
	// confirmSlack is what a Confirmation multiplies each U_g by.
	confirmSlack = 1.25
)

// RatioBound is U_g: a bound on the expectation of an alternative's clipped likelihood
// ratio under honest answers. It is at least 1.
type RatioBound float64

// NewRatioBound returns U_g = max(1, m + √(2vL/n) + 60·L/n) with L = ln(1.8·10⁸). m is the
// mean of the clipped ratios of n calibrated answers, and v their variance with the
// divisor n − 1.
//
// Maurer and Pontil (Empirical Bernstein bounds and sample variance penalization, 2009,
// theorem 4): for n independent X in [0,1], with chance 1 − δ,
// E[X] ≤ m + √(2v·ln(2/δ)/n) + 7·ln(2/δ)/(3(n−1)). Ratios lie in [0,20], which multiplies
// the last term by 20; 140/(3(n−1)) ≤ 60/n from n = 5 on. A calibration has one bound for
// each of nine alternatives and may be unsound with 10⁻⁷ in all, so that δ = 10⁻⁷/9.
// The honest expectation of a ratio is 1 where the reference is exact, so that a bound
// below 1 could only be chance.
func NewRatioBound(m, v float64, n int) (RatioBound, error) {
	switch {
	case !(m >= 0 && m <= MaxRatio):
		return 0, fmt.Errorf("%w: the mean %v", ErrRatio, m)
	case !(v >= 0 && v <= MaxRatio*MaxRatio):
		return 0, fmt.Errorf("%w: the variance %v", ErrRatio, v)
	case n < MinRatioSamples:
		return 0, fmt.Errorf("%w: %d samples, want at least %d", ErrRatio, n, MinRatioSamples)
	}
	count := float64(n)
	u := m + math.Sqrt(2*v*ratioConfidence/count)
	u += 60 * ratioConfidence / count
	return RatioBound(max(1, u)), nil
}

var (
	// ErrRatio is the error for numbers that are no likelihood ratios or no calibration.
	ErrRatio = errors.New("not a likelihood ratio")
	// ErrFamily is the error for a family that is unknown or takes no such observation.
	ErrFamily = errors.New("not such a family")
)

// Ratios are the likelihood ratios of one sampled answer, by alternative. The zero value
// has none.
type Ratios struct {
	asked  alternatives
	ratios [Alternatives]float64
	bounds [Alternatives]float64
}

// Set adds the answer's likelihood ratio Π g_t(a_t)/ℓ_t(a_t) for an alternative, clipped
// to MaxRatio, with the alternative's bound. Infinity is clipped too. A second ratio for
// the same alternative replaces the first.
func (r *Ratios) Set(g Alternative, ratio float64, bound RatioBound) error {
	switch {
	case g >= Alternatives:
		return fmt.Errorf("%w: %v", ErrRatio, g)
	case !(ratio >= 0):
		return fmt.Errorf("%w: %v for %v", ErrRatio, ratio, g)
	case !(bound >= 1) || math.IsInf(float64(bound), 1):
		return fmt.Errorf("%w: the bound %v for %v", ErrRatio, float64(bound), g)
	}
	r.asked |= 1 << g
	r.ratios[g] = min(MaxRatio, ratio)
	r.bounds[g] = float64(bound)
	return nil
}

// E returns the alternative's e-value: its clipped ratio divided by its bound. ok reports
// whether the alternative was set.
func (r *Ratios) E(g Alternative) (e float64, ok bool) {
	if !r.asked.has(g) {
		return 0, false
	}
	return r.ratios[g] / r.bounds[g], true
}

// Clipped reports whether the ratio of some alternative reached MaxRatio. This is what
// counts as b = 1 where a rule counts exceedances and family R takes part.
func (r *Ratios) Clipped() bool {
	for g := range Alternative(Alternatives) {
		if r.asked.has(g) && r.ratios[g] >= MaxRatio {
			return true
		}
	}
	return false
}

// alternatives is a set of alternatives, one bit each.
type alternatives uint16

// allAlternatives is the set with all of them.
const allAlternatives alternatives = 1<<Alternatives - 1

// has reports whether the set has g.
func (s alternatives) has(g Alternative) bool { return g < Alternatives && s>>g&1 == 1 }

// ratioProducts are the products of family R: one for each joined alternative and bet.
// Products of alternatives that have not joined are 0.
type ratioProducts struct {
	joined   alternatives
	products [Alternatives][ratioCount]float64
}

// observe moves the products of the alternatives that an answer was weighed against. An
// alternative that joins starts with the mean of the present ones, or with start as the
// first. slack divides the e-values.
func (p *ratioProducts) observe(r *Ratios, capital, start, slack float64) {
	joining := p.mean(start)
	for g := range Alternative(Alternatives) {
		if !r.asked.has(g) || p.joined.has(g) {
			continue
		}
		for i := range p.products[g] {
			p.products[g][i] = joining
		}
	}
	p.joined |= r.asked
	for g := range Alternative(Alternatives) {
		e, ok := r.E(g)
		if !ok {
			continue
		}
		e /= slack
		for i, share := range ratioBets {
			factor := (1 - share) + float64(share*e)
			p.products[g][i] = step(p.products[g][i], capital, factor)
		}
	}
}

// mean returns the mean over joined alternatives and bets, and start without any.
func (p *ratioProducts) mean(start float64) float64 {
	if p.joined == 0 {
		return start
	}
	sum, count := 0.0, 0
	for g := range Alternative(Alternatives) {
		if p.joined.has(g) {
			for _, m := range p.products[g] {
				sum += m
			}
			count += ratioCount
		}
	}
	return sum / float64(count)
}
