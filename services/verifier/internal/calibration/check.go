package calibration

import (
	"fmt"
	"math"
	"unicode/utf8"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/quant"
)

// maxText bounds a text in bytes.
const maxText = 255

// check returns ErrData for a calibration beyond the bounds, or one that could be written
// in another way.
func (c Calibration) check() error {
	if err := c.Stratum.check(); err != nil {
		return err
	}
	switch {
	case c.Rules < 0 || c.Rules > math.MaxUint8:
		return fmt.Errorf("%w: rules of version %d", ErrData, c.Rules)
	case c.Family.Letter() == "":
		return fmt.Errorf("%w: the family %v", ErrData, c.Family)
	case c.N < 0 || c.N > MaxChallenges || c.Whole < 0 || c.Whole > c.Hosts || c.Hosts > MaxHosts:
		return fmt.Errorf("%w: %d challenges, %d of %d hosts", ErrData, c.N, c.Whole, c.Hosts)
	case len(c.Largest) > MaxParts || len(c.Ratios) > evidence.Alternatives:
		return fmt.Errorf("%w: %d parts, %d alternatives", ErrData, len(c.Largest), len(c.Ratios))
	}
	for _, x := range c.Largest {
		if !isNumber(x, MaxPart) {
			return fmt.Errorf("%w: a largest part is %v", ErrData, x)
		}
	}
	for i, m := range c.Ratios {
		switch {
		case m.Alternative >= evidence.Alternatives || (i > 0 && m.Alternative <= c.Ratios[i-1].Alternative):
			return fmt.Errorf("%w: the alternative %v", ErrData, m.Alternative)
		case !isNumber(m.Mean, evidence.MaxRatio), !isNumber(m.Variance, evidence.MaxRatio*evidence.MaxRatio),
			m.N < evidence.MinRatioSamples, m.N > MaxChallenges:
			return fmt.Errorf("%w: moments %v", ErrData, m)
		}
	}
	return c.Power.check()
}

func (p Power) check() error {
	switch {
	case p == Power{}:
		return nil
	case !p.Class.Known(), p.N < 1, p.N > MaxChallenges, p.Exceeded < 0, p.Exceeded > p.N:
		return fmt.Errorf("%w: power %+v", ErrData, p)
	}
	return nil
}

func (s Stratum) check() error {
	if s.Model == "" || !isText(s.Model) || !isText(s.Engine) || !isText(s.GPU) {
		return fmt.Errorf("%w: stratum %.40q", ErrData, s.Model)
	}
	if s.Class != quant.Unknown && !s.Class.Known() {
		return fmt.Errorf("%w: class %d", ErrData, s.Class)
	}
	return nil
}

func isText(s string) bool { return len(s) <= maxText && utf8.ValidString(s) }

// isNumber reports whether x is from 0 to high, and not −0, which has other bits than 0.
func isNumber(x, high float64) bool { return x >= 0 && x <= high && !math.Signbit(x) }
