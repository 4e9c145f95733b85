package evidence

import "fmt"

// Observation is what a probe says for one family. It is made by Judged or Weighed; the
// zero value says nothing and moves nothing.
type Observation struct {
	family   Family
	exceeded bool
	ratios   *Ratios // of family Sampled; never written again
}

// Judged returns the observation b of a family whose statistic has a threshold: every
// family with a process but Sampled. exceeded is b = 1.
func Judged(f Family, exceeded bool) (Observation, error) {
	if !f.hasThreshold() {
		return Observation{}, fmt.Errorf("%w: %v has no threshold", ErrFamily, f)
	}
	return Observation{family: f, exceeded: exceeded}, nil
}

// Weighed returns the observation of family Sampled: an answer's likelihood ratios, at
// least one.
func Weighed(r Ratios) (Observation, error) {
	if r.asked == 0 {
		return Observation{}, fmt.Errorf("%w: no alternative was asked", ErrRatio)
	}
	return Observation{family: Sampled, exceeded: r.Clipped(), ratios: &r}, nil
}

// Family returns the observation's family.
func (o Observation) Family() Family { return o.family }

// Exceeded reports whether b = 1, for family Sampled whether a ratio reached MaxRatio.
func (o Observation) Exceeded() bool { return o.exceeded }

// whole returns ErrFamily for a probe that observes a family twice.
func whole(probe []Observation) error {
	var seen [processes + 1]bool
	for _, o := range probe {
		if o.family == NoFamily {
			continue
		}
		if seen[o.family] {
			return fmt.Errorf("%w: %v twice in one probe", ErrFamily, o.family)
		}
		seen[o.family] = true
	}
	return nil
}
