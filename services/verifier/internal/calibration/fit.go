package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"svc.internal/services/verifier/internal/quant"
)

// ErrSplit is the error for hosts that differ too much to be one stratum.
var ErrSplit = errors.New("hosts differ, the stratum must be split")

// The rule of splitting.
const (
	// maxHostRatio is how far the 99% quantiles of two hosts may be apart.
	maxHostRatio = 1.5
	// minHostChallenges is the number below which a host has no 99% quantile.
	minHostChallenges = 100
)

// Challenge is one honest challenge: the host that answered, and its parts.
type Challenge struct {
	Host  string
	Parts []float64
}

// Fit makes the calibration of a statistic with k parts. The order of the challenges does
// not matter. It fails with ErrData, and with ErrSplit for hosts whose 99% quantiles of X
// differ by more than 1.5 times.
func Fit(s Stratum, family string, k int, honest []Challenge) (Calibration, error) {
	c := Calibration{Stratum: s, Family: family, N: len(honest), Largest: make([]float64, max(0, min(k, MaxParts)))}
	switch {
	case k < 1 || k > MaxParts:
		return Calibration{}, fmt.Errorf("%w: %d parts", ErrData, k)
	case len(honest) == 0 || len(honest) > MaxChallenges:
		return Calibration{}, fmt.Errorf("%w: %d challenges", ErrData, len(honest))
	case s.check() != nil:
		return Calibration{}, s.check()
	case family == "" || len(family) > maxText:
		return Calibration{}, fmt.Errorf("%w: family of %d bytes", ErrData, len(family))
	}
	for _, h := range honest {
		if len(h.Parts) != k {
			return Calibration{}, fmt.Errorf("%w: %d parts, not %d", ErrData, len(h.Parts), k)
		}
		for i, p := range h.Parts {
			if !(p >= 0 && p <= MaxPart) {
				return Calibration{}, fmt.Errorf("%w: a part is %v", ErrData, p)
			}
			c.Largest[i] = max(c.Largest[i], p)
		}
	}
	hosts, err := c.hosts(honest)
	if err != nil {
		return Calibration{}, err
	}
	c.Hosts = len(hosts)
	if c.Hosts > MaxHosts {
		return Calibration{}, fmt.Errorf("%w: %d hosts", ErrData, c.Hosts)
	}
	return c, apart(hosts)
}

// hosts returns the X of each host.
func (c Calibration) hosts(honest []Challenge) (map[string][]float64, error) {
	hosts := make(map[string][]float64)
	for _, h := range honest {
		x, err := c.X(h.Parts)
		if err != nil {
			return nil, err
		}
		hosts[h.Host] = append(hosts[h.Host], x)
	}
	return hosts, nil
}

// apart returns ErrSplit for hosts that differ. Hosts of few challenges are not compared.
func apart(hosts map[string][]float64) error {
	low, high := math.Inf(1), 0.0
	for _, xs := range hosts {
		if len(xs) >= minHostChallenges {
			q := Quantile99(xs)
			low, high = min(low, q), max(high, q)
		}
	}
	if high > float64(maxHostRatio*low) {
		return fmt.Errorf("%w: 99%% quantiles of X from %v to %v", ErrSplit, low, high)
	}
	return nil
}

// Quantile99 is the smallest value with at least 99% of all at or below it.
func Quantile99(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[(99*len(sorted)+99)/100-1]
}

// WithPower adds the second tolerance: the challenges to the next cheaper class.
func (c Calibration) WithPower(cheaper quant.Class, parts [][]float64) (Calibration, error) {
	if !cheaper.Known() || len(parts) == 0 || len(parts) > MaxChallenges {
		return Calibration{}, fmt.Errorf("%w: %d challenges to class %v", ErrData, len(parts), cheaper)
	}
	c.Power = Power{Class: cheaper, N: len(parts)}
	for _, p := range parts {
		b, err := c.Exceeds(p)
		if err != nil {
			return Calibration{}, err
		}
		if b {
			c.Power.Exceeded++
		}
	}
	return c, nil
}

// FitRatios makes the calibration of family R: the honest clipped ratios against each
// alternative. hosts is the number of hosts that they come from.
func FitRatios(s Stratum, family string, hosts int, ratios map[string][]float64) (Calibration, error) {
	if err := s.check(); err != nil {
		return Calibration{}, err
	}
	if len(ratios) == 0 || len(ratios) > MaxRatios || hosts < 1 || hosts > MaxHosts ||
		family == "" || len(family) > maxText {
		return Calibration{}, fmt.Errorf("%w: %d alternatives, %d hosts", ErrData, len(ratios), hosts)
	}
	c := Calibration{Stratum: s, Family: family, Hosts: hosts, N: MaxChallenges}
	for name, values := range ratios {
		m, err := moments(name, values)
		if err != nil {
			return Calibration{}, err
		}
		c.Ratios, c.N = append(c.Ratios, m), min(c.N, m.N)
	}
	slices.SortFunc(c.Ratios, func(a, b Moments) int { return strings.Compare(a.Alternative, b.Alternative) })
	return c, nil
}

// moments returns mean and sample variance, in two passes over the values as they come.
func moments(name string, values []float64) (Moments, error) {
	if name == "" || len(name) > maxText || len(values) < 2 || len(values) > MaxChallenges {
		return Moments{}, fmt.Errorf("%w: %d ratios against %.40q", ErrData, len(values), name)
	}
	sum := 0.0
	for _, v := range values {
		if !(v >= 0 && v <= maxRatio) {
			return Moments{}, fmt.Errorf("%w: a ratio is %v", ErrData, v)
		}
		sum += v
	}
	n := float64(len(values))
	mean := sum / n
	squares := 0.0
	for _, v := range values {
		squares += float64((v - mean) * (v - mean))
	}
	return Moments{Alternative: name, Mean: mean, Variance: squares / (n - 1), N: len(values)}, nil
}

// Choose returns the calibration of a family for a stratum: the exact one, or for a stratum
// that is partly unknown the widest limits of the model's calibrations that agree with what
// is known. It reports false where none agrees.
func Choose(s Stratum, family string, all []Calibration) (Calibration, bool) {
	var wide Calibration
	found := false
	for _, c := range all {
		switch {
		case c.Family != family || !s.agrees(c.Stratum):
		case !found:
			wide, found = c, true
			wide.Largest, wide.Ratios = slices.Clone(c.Largest), slices.Clone(c.Ratios)
		case len(c.Largest) == len(wide.Largest):
			wide.widen(c)
		}
	}
	if found {
		wide.Stratum = s
	}
	return wide, found
}

// widen takes the larger limits and the smaller numbers of both.
func (c *Calibration) widen(o Calibration) {
	c.N, c.Hosts = min(c.N, o.N), min(c.Hosts, o.Hosts)
	c.Power = Power{} // the limits are no longer those of one class
	for i := range c.Largest {
		c.Largest[i] = max(c.Largest[i], o.Largest[i])
	}
	kept := c.Ratios[:0]
	for _, m := range c.Ratios {
		if other, ok := o.Ratio(m.Alternative); ok {
			kept = append(kept, wider(m, other))
		}
	}
	c.Ratios = kept
}

// wider returns the moments with the larger bound, and of equal ones the first.
func wider(a, b Moments) Moments {
	boundA, _ := a.Bound()
	if boundB, _ := b.Bound(); boundB > boundA {
		return b
	}
	return a
}

// agrees reports whether a calibration's stratum is s wherever s is known.
func (s Stratum) agrees(c Stratum) bool {
	return s.Model == c.Model && (s.Files == [32]byte{} || s.Files == c.Files) &&
		(!s.Class.Known() || s.Class == c.Class) &&
		(s.Engine == "" || s.Engine == c.Engine) && (s.GPU == "" || s.GPU == c.GPU)
}
