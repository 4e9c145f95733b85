package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
)

// ErrSplit is the error for hosts that differ too much to be one stratum.
var ErrSplit = errors.New("hosts differ, the stratum must be split")

// The rule of splitting.
const (
	// maxHostRatio is how far the 99% quantiles of two hosts may be apart.
	maxHostRatio = 1.5
	// minQuantile is the 99% quantile of X that smaller ones are taken for. Near 0 the
	// ratio of two quantiles is noise, and hosts that are all so far below the limit cannot
	// hide anything in it.
	minQuantile = .25
)

// Challenge is one honest challenge: the host that answered, and its parts.
type Challenge struct {
	Host  string
	Parts []float64
}

// Fit makes the calibration of a statistic with k parts. The order of the challenges does
// not matter. It fails with ErrData, and with ErrSplit for hosts whose 99% quantiles of X
// differ by more than 1.5 times.
func Fit(s Stratum, family evidence.Family, k int, honest []Challenge) (Calibration, error) {
	need, ok := Required(k)
	switch {
	case !ok:
		return Calibration{}, fmt.Errorf("%w: %d parts", ErrData, k)
	case len(honest) == 0 || len(honest) > MaxChallenges:
		return Calibration{}, fmt.Errorf("%w: %d challenges", ErrData, len(honest))
	case family == evidence.Sampled:
		return Calibration{}, fmt.Errorf("%w: family %v has ratios", ErrData, family)
	}
	c := Calibration{Stratum: s, Family: family, N: len(honest), Largest: make([]float64, k)}
	if err := c.check(); err != nil {
		return Calibration{}, err
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
	if len(hosts) > MaxHosts {
		return Calibration{}, fmt.Errorf("%w: %d hosts", ErrData, len(hosts))
	}
	for _, xs := range hosts {
		c.count(len(xs), need)
	}
	return c, apart(hosts)
}

// count counts a host of n challenges.
func (c *Calibration) count(n, need int) {
	if n >= MinHostChallenges {
		c.Hosts++
	}
	if n >= need {
		c.Whole++
	}
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
		if len(xs) >= MinHostChallenges {
			q := max(minQuantile, Quantile99(xs))
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

// Ratio is the clipped likelihood ratio of an honest answer, and the host that sampled it.
type Ratio struct {
	Host  string
	Value float64
}

// FitRatios makes the calibration of family R: the honest clipped ratios against each
// alternative. The moments of an alternative are those of the host with the largest bound.
// Hosts with fewer than MinHostChallenges ratios are left out, unless all have so few: then
// the moments are those of all together, and the calibration reaches no penalty. N is the
// smallest number of ratios of an alternative, and Hosts and Whole are the smallest numbers
// of hosts.
func FitRatios(s Stratum, ratios map[evidence.Alternative][]Ratio) (Calibration, error) {
	c := Calibration{Stratum: s, Family: evidence.Sampled, N: MaxChallenges, Hosts: MaxHosts, Whole: MaxHosts}
	if err := c.check(); err != nil {
		return Calibration{}, err
	}
	for g := range evidence.Alternative(evidence.Alternatives) {
		values, ok := ratios[g]
		if !ok {
			continue
		}
		of, err := fitAlternative(g, values)
		if err != nil {
			return Calibration{}, err
		}
		c.Ratios = append(c.Ratios, of.Ratios...)
		c.N, c.Hosts, c.Whole = min(c.N, of.N), min(c.Hosts, of.Hosts), min(c.Whole, of.Whole)
	}
	if len(c.Ratios) == 0 || len(c.Ratios) != len(ratios) {
		return Calibration{}, fmt.Errorf("%w: %d alternatives", ErrData, len(ratios))
	}
	return c, nil
}

// fitAlternative returns the moments and the numbers of one alternative.
func fitAlternative(g evidence.Alternative, ratios []Ratio) (Calibration, error) {
	if len(ratios) > MaxChallenges {
		return Calibration{}, fmt.Errorf("%w: %d ratios against %v", ErrData, len(ratios), g)
	}
	need, _ := Required(1)
	c := Calibration{N: len(ratios)}
	var names []string
	hosts, all := make(map[string][]float64), make([]float64, 0, len(ratios))
	for _, r := range ratios {
		if _, known := hosts[r.Host]; !known {
			names = append(names, r.Host)
		}
		hosts[r.Host], all = append(hosts[r.Host], r.Value), append(all, r.Value)
	}
	if len(names) > MaxHosts {
		return Calibration{}, fmt.Errorf("%w: %d hosts", ErrData, len(names))
	}
	widest, err := moments(g, all)
	if err != nil {
		return Calibration{}, err
	}
	slices.Sort(names)
	for _, name := range names {
		values := hosts[name]
		c.count(len(values), need)
		if len(values) < MinHostChallenges {
			continue
		}
		m, err := moments(g, values)
		if err != nil {
			return Calibration{}, err
		}
		if c.Hosts > 1 {
			m = wider(widest, m)
		}
		widest = m
	}
	c.Ratios = []Moments{widest}
	return c, nil
}

// moments returns mean and sample variance, in two passes over the values as they come.
func moments(g evidence.Alternative, values []float64) (Moments, error) {
	if len(values) < evidence.MinRatioSamples {
		return Moments{}, fmt.Errorf("%w: %d ratios against %v", ErrData, len(values), g)
	}
	sum := 0.0
	for _, v := range values {
		if !(v >= 0 && v <= evidence.MaxRatio) {
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
	return Moments{Alternative: g, Mean: mean, Variance: squares / (n - 1), N: len(values)}, nil
}

// Choose returns the calibration of a family for a stratum: the exact one, or for a stratum
// that is partly unknown the widest limits of the model's calibrations that agree with what
// is known. It reports false where none agrees.
func Choose(s Stratum, family evidence.Family, all []Calibration) (Calibration, bool) {
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
	c.N, c.Hosts, c.Whole = min(c.N, o.N), min(c.Hosts, o.Hosts), min(c.Whole, o.Whole)
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
	boundA, _ := a.Bound() // moments has enough of them
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
