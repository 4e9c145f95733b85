// Package calibration turns parts of observations into exceedances.
//
// # Tolerance limits
//
// A statistic has k parts. A calibration keeps the largest value of each part among n
// challenges to honest hosts. An observation has X = max over its parts of part ÷ largest
// calibrated, and exceeds (b = 1) where X > Tau. The largest values are a distribution-free
// upper tolerance limit (S. S. Wilks, "Determination of sample sizes for setting tolerance
// limits", Annals of Mathematical Statistics 12, 1941; several parts: A. Wald, ibid. 14,
// 1943): a new honest observation lies above one of k maxima with a probability that is
// distributed as Beta(k, n−k+1), whatever the distribution of the parts. Required is the
// smallest n with which this probability is at most Q0 with confidence 1 − Unsound:
//
//	Σ_{i<k} C(n,i) Q0^i (1−Q0)^(n−i) ≤ Unsound
//
// which gives 1,604, 1,903 and 2,158 for k = 1, 2, 3. Tau > 1 only makes b rarer.
//
// The distribution is that of one host. The limit of a mixture of hosts leaves Q0 of the
// mixture above it, which may be 2·Q0 of a host that has half of the challenges. So the
// required number is asked of each host, and only hosts with that many count for a penalty.
//
// # Power
//
// The next cheaper class is calibrated too. Where a family does not exceed in at least
// MinPower of the challenges to that class, it does not judge quantization there. The
// bound is one-sided (C. J. Clopper and E. S. Pearson, Biometrika 26, 1934) with
// confidence PowerConfidence.
//
// # Ratios
//
// Family R has no b. Its clipped likelihood ratios are divided by Bound, an empirical
// Bernstein bound of their honest mean (evidence.NewRatioBound), which is that of the host
// with the largest one.
//
// # Errors
//
// Fit refuses what cannot be a calibration with ErrData. A calibration of too few
// challenges is one, and reaches no further than watch (Reach).
//
// All arithmetic is + − × ÷ and square roots of float64 in the order of the input, so that
// a replay gives the same bits. The binary form (binary.go) has a hash, which evidence
// names.
package calibration

import (
	"errors"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
)

// The constants of the design.
const (
	// Q0 is the honest probability of an exceedance at most.
	Q0 = 0.01
	// Unsound is the probability that a calibration does not hold Q0.
	Unsound = 1e-7
	// Tau is the X above which an observation exceeds.
	Tau = 1.1
	// MinHosts is the number of hosts with the required challenges each, and MinReferences
	// that of the references that must exist for a penalty.
	MinHosts      = 2
	MinReferences = 2
	// MinPower is the power below which a family does not judge quantization.
	MinPower        = 0.2
	PowerConfidence = 0.95
)

// The bounds of a calibration.
const (
	// MaxParts bounds the parts of a statistic.
	MaxParts = 3
	// MaxChallenges bounds the challenges of one fit.
	MaxChallenges = 20_000
	// MaxPart bounds a part. Larger parts are taken for it.
	MaxPart = 1e9
	// MaxHosts bounds the hosts of a fit.
	MaxHosts = 256
	// MinHostChallenges is the number of challenges below which a host does not count as
	// one.
	MinHostChallenges = 100
)

// MaxX is the X of a part above 0 whose largest calibrated value is 0.
const MaxX = 1e9

// Stratum is what a calibration holds for. An empty text, a zero Files or an unknown Class
// is unknown.
type Stratum struct {
	Model string
	// Files is the composite hash of the catalog's files.
	Files [32]byte
	// Class is the quantization class.
	Class quant.Class
	// Engine and GPU name the engine and the class of the GPU.
	Engine, GPU string
}

// Moments are mean and variance of N clipped likelihood ratios against one alternative.
type Moments struct {
	Alternative    evidence.Alternative
	Mean, Variance float64
	N              int
}

// Power is how many of N challenges to the next cheaper class exceeded. Its zero value is
// no such calibration.
type Power struct {
	Class       quant.Class
	Exceeded, N int
}

// Calibration holds what honest hosts of a stratum do in one family.
type Calibration struct {
	Stratum Stratum
	Family  evidence.Family
	// Rules is the version of the rules by which the challenges were judged
	// (judge.Version); 0 for those of before rules had versions here. A calibration holds for
	// its own rules alone, because others give other parts.
	Rules int
	// N is the number of honest challenges. Hosts is the number of hosts with at least
	// MinHostChallenges of them, and Whole that of hosts with as many as Required says.
	N, Hosts, Whole int
	// Largest are the largest parts. Family R has none.
	Largest []float64
	// Ratios are ordered by Alternative.
	Ratios []Moments
	Power  Power
}

// ErrData is the error for data that no calibration can be made of.
var ErrData = errors.New("no data of a calibration")

// X is the largest of part ÷ largest calibrated. It fails where the numbers of parts
// differ or a part is no number of at least 0.
func (c Calibration) X(parts []float64) (float64, error) {
	if len(parts) == 0 || len(parts) != len(c.Largest) {
		return 0, ErrData
	}
	x := 0.0
	for i, p := range parts {
		if !(p >= 0) {
			return 0, ErrData
		}
		p = min(p, MaxPart)
		switch {
		case c.Largest[i] > 0:
			x = max(x, min(p/c.Largest[i], MaxX))
		case p > 0:
			x = MaxX
		}
	}
	return x, nil
}

// Exceeds reports whether the parts are b = 1.
func (c Calibration) Exceeds(parts []float64) (bool, error) {
	x, err := c.X(parts)
	return x > Tau, err
}

// Required returns the number of challenges to one host for k parts, 1 to MaxParts, and
// reports false for another k. Family R, which has no parts, requires as many as one part.
func Required(k int) (int, bool) {
	required := [...]int{1604, 1903, 2158}
	if k < 1 || k > len(required) {
		return 0, false
	}
	return required[k-1], true
}

// Reach is how far the ladder goes on the word of a calibration.
type Reach string

// The reaches.
const (
	// ReachNothing is a calibration that judges nobody.
	ReachNothing Reach = "nothing"
	// ReachWatch is a calibration of too few challenges or hosts, or with one reference.
	ReachWatch Reach = "watch"
	// ReachPenalty is a whole calibration.
	ReachPenalty Reach = "penalty"
)

// Reach returns how far the ladder goes, given how many references the stratum has.
func (c Calibration) Reach(references int) Reach {
	if references < 1 || c.N == 0 {
		return ReachNothing
	}
	if c.Whole < MinHosts || references < MinReferences {
		return ReachWatch
	}
	return ReachPenalty
}

// Bound is U_g of family R (evidence.NewRatioBound). It fails for moments of too few ratios.
func (m Moments) Bound() (evidence.RatioBound, error) {
	return evidence.NewRatioBound(m.Mean, m.Variance, m.N)
}

// Ratio returns the moments of an alternative.
func (c Calibration) Ratio(alternative evidence.Alternative) (Moments, bool) {
	for _, m := range c.Ratios {
		if m.Alternative == alternative {
			return m, true
		}
	}
	return Moments{}, false
}
