package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
)

// Fit makes the calibrations of the round, in the order of families. A family without a
// sample has none. The error names the families that could not be calibrated, such as
// those whose hosts differ (calibration.ErrSplit); the others are returned beside it.
func (r *Round) Fit() ([]calibration.Calibration, error) {
	// The order of samples must not move a bit of the result.
	samples := slices.Clone(r.taken)
	slices.SortFunc(samples, func(a, b taken) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Host, b.Host))
	})
	var (
		all  []calibration.Calibration
		errs error
	)
	for _, f := range r.families() {
		c, ok, err := r.fit(f, samples)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("calibrate %v: %w", f, err))
		}
		if ok && err == nil {
			c.Rules = judge.Version
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b calibration.Calibration) int { return cmp.Compare(a.Family, b.Family) })
	return all, errs
}

// fit makes one calibration. It reports false where there is no sample.
func (r *Round) fit(f evidence.Family, all []taken) (calibration.Calibration, bool, error) {
	var (
		honest  []calibration.Challenge
		cheaper [][]float64
		ratios  = map[evidence.Alternative][]calibration.Ratio{}
	)
	for _, s := range all {
		switch {
		case s.Family != f:
		case s.Cheaper:
			cheaper = append(cheaper, s.parts)
		case f == evidence.Sampled:
			for g, x := range s.ratios {
				ratios[g] = append(ratios[g], calibration.Ratio{Host: s.Host, Value: x})
			}
		default:
			honest = append(honest, calibration.Challenge{Host: s.Host, Parts: s.parts})
		}
	}
	if f == evidence.Sampled {
		if len(ratios) == 0 {
			return calibration.Calibration{}, false, nil
		}
		c, err := calibration.FitRatios(r.order.Stratum, ratios)
		return c, true, err
	}
	if len(honest) == 0 {
		return calibration.Calibration{}, false, nil
	}
	c, err := calibration.Fit(r.order.Stratum, f, parts[f], honest)
	if err != nil || len(cheaper) == 0 {
		return c, true, err
	}
	c, err = c.WithPower(r.order.Cheaper, cheaper)
	return c, true, err
}
