// Package trust turns what is known of an offer into a number by which routers weigh it.
//
// Trust is max(.05, V·I·C·F), a product of four factors that each answer one question:
//
//	V  how much was verified  .8 + .2·(1 − 2^(−n/40)) for n passed hidden observations
//	I  what speaks against it max(0, 1 − log₁₀(max(M, 1))/3) for the evidence M
//	C  how fresh its context  1 until 7 days after a passed recall, then linear to .9 at 30
//	F  how it treats requests 1, .5 from evidence of pairs of 20, .05 from 1,000
//
// A product lets each question alone lower trust, and no strength makes up for a lie. The
// floor keeps an offer in reach of probes: without requests nothing could raise trust
// again. V begins at .8, because an offer without observations is unknown and not bad. I
// falls from M = 1 on to 0 at M = 1,000, where the ladder gives notice. n has a half-life
// of 30 days, so that trust is of now.
//
// An honest offer with n ≥ 80, M < 1 and a recall of this week has at least .95, which is
// "high": V = .95 at n = 80 exactly.
//
// What is no number counts as the worst, because a fault must not make trust. All
// arithmetic is that of package exact, so that a replay gives the same bits.
package trust

import (
	"math"
	"time"

	"svc.internal/services/verifier/internal/exact"
)

const (
	// Min is the smallest trust.
	Min = .05
	// Max is the largest trust.
	Max = 1.0
	// HighFrom is the smallest trust that the catalog shows as high.
	HighFrom = .95
	// HalfLife is the time in which a passed observation loses half of its weight.
	HalfLife = 30 * 24 * time.Hour
)

const (
	unverified = .8 // V without observations
	scale      = 40 // how many passed observations halve what V lacks
	decades    = 3  // how many powers of ten of M make I 0

	freshFor = 7 * 24 * time.Hour
	staleAt  = 30 * 24 * time.Hour
	stale    = .9 // C without a fresh recall

	unfairFrom, unfair         = 20, .5
	veryUnfairFrom, veryUnfair = 1_000, .05
)

// Facts are what is known of an offer: a provider's model.
type Facts struct {
	// Passed is n, the number of passed hidden observations, each with its weight by age:
	// see Decay.
	Passed float64
	// M is the evidence of all families against the offer.
	M float64
	// Recalled reports whether a recall was ever passed, and SinceRecall is how long ago
	// the last one was. A time below 0 is none.
	Recalled    bool
	SinceRecall time.Duration
	// Pairs is M of failed probes against failed organic attempts.
	Pairs float64
}

// Factors are the factors of trust, each in [0, 1]. They explain it.
type Factors struct {
	// V grows with what was verified.
	V float64
	// I falls with evidence against the offer.
	I float64
	// C falls with the time since the last passed recall.
	C float64
	// F falls with evidence that requests fail more often than probes.
	F float64
}

// Of returns the factors of what is known.
func Of(k Facts) Factors {
	return Factors{
		V: verified(k.Passed), I: innocent(k.M), C: fresh(k.Recalled, k.SinceRecall), F: fair(k.Pairs),
	}
}

// Value returns the trust: the product of the factors, at least Min and at most Max.
func (f Factors) Value() float64 {
	product := f.V * f.I * f.C * f.F
	switch {
	case product > Max:
		return Max
	case product > Min:
		return product
	default: // not a number too
		return Min
	}
}

// High reports whether the catalog shows the offer's trust as high.
func (f Factors) High() bool { return f.Value() >= HighFrom }

func verified(passed float64) float64 {
	if !(passed > 0) {
		return unverified
	}
	return unverified + float64((1-unverified)*(1-half(passed/scale)))
}

func innocent(m float64) float64 {
	switch {
	case math.IsNaN(m):
		return 0
	case m <= 1:
		return 1
	}
	log10 := float64(exact.Log2(m) * (math.Ln2 / math.Ln10))
	return max(0, 1-log10/decades)
}

func fresh(recalled bool, since time.Duration) float64 {
	switch {
	case !recalled || since >= staleAt:
		return stale
	case since <= freshFor:
		return 1
	}
	share := float64(since-freshFor) / float64(staleAt-freshFor)
	return 1 - float64((1-stale)*share)
}

func fair(pairs float64) float64 {
	switch {
	case pairs < unfairFrom:
		return 1
	case pairs < veryUnfairFrom:
		return unfair
	default: // not a number too
		return veryUnfair
	}
}

// Decay returns the weight of passed observations after more time. A new passed one then
// adds 1. Time that runs backwards changes nothing, and what is no number is 0.
func Decay(passed float64, elapsed time.Duration) float64 {
	switch {
	case !(passed > 0):
		return 0
	case elapsed <= 0:
		return passed
	}
	return float64(passed * half(float64(elapsed)/float64(HalfLife)))
}

// half returns 2 to the power of −x for x ≥ 0. Whole powers are exact.
func half(x float64) float64 {
	if x > 1_000 {
		return 0
	}
	whole := math.Floor(x)
	return math.Ldexp(exact.Exp(float64(-(x-whole)*math.Ln2)), -int(whole))
}
