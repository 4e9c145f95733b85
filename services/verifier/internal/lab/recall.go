package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/statistic"
	"svc.internal/services/verifier/internal/window"
)

// askedNeedles is how many needles a hidden recall asks for.
const askedNeedles = window.Needles

// recall measures family D against a provider that serves half of the window that it
// states, at several recalls of honest hosts: the shorter half of the needles comes back.
func recall(ctx context.Context, o Options, report *Report) error {
	for _, c := range []float64{1, .99, .95, .9} {
		s := years.NewSource(91, uint64(1_000*c))
		fit, err := recallLimits(s, c)
		if err != nil {
			return err
		}
		exceeded, n := 0, o.scale(10*trials, trials)
		for range n {
			parts, void := lossyRecall(s, c, askedNeedles/2)
			if void != statistic.None {
				continue
			}
			b, err := fit.Exceeds(parts)
			if err != nil {
				return err
			}
			exceeded += count(b)
		}
		name := fmt.Sprintf("half of the window at recall %v: D exceeds", c)
		report.add(within(name, 1, float64(exceeded)/float64(n), powerTolerance))
	}
	return ctx.Err()
}

// recallLimits calibrates two honest hosts.
func recallLimits(s years.Source, chance float64) (calibration.Calibration, error) {
	need, _ := calibration.Required(1)
	var honest []calibration.Challenge
	for i := range need * calibration.MinHosts {
		parts, void := lossyRecall(s, chance, 0)
		if void == statistic.None {
			honest = append(honest, calibration.Challenge{Host: hostName(i % calibration.MinHosts), Parts: parts})
		}
	}
	fit, err := calibration.Fit(stratum, evidence.Recall, 1, honest)
	if err != nil {
		return calibration.Calibration{}, fmt.Errorf("calibrate D: %w", err)
	}
	return fit, nil
}

// lossyRecall is the statistic of an answer to a recall prompt. Reference and provider
// return each needle with a chance, and the provider none of the first lost ones.
func lossyRecall(s years.Source, chance float64, lost int) (statistic.Parts, statistic.Void) {
	var needles, ours, theirs []string
	for i := range askedNeedles {
		code := strconv.Itoa(100_000 + i)
		needles = append(needles, code)
		if s.Below(chance) {
			ours = append(ours, code)
		}
		if s.Below(chance) && i >= lost {
			theirs = append(theirs, code)
		}
	}
	return statistic.Recall(needles, strings.Join(ours, " "), strings.Join(theirs, " "))
}
