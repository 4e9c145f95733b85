package judge

import (
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
	"svc.internal/services/verifier/internal/window"
)

// lostShare is the part of the needles that a check may miss where no calibration says how
// many honest hosts miss: one of so many.
const lostShare = 8

// recall judges needles: family D for a recall, and the measurement of the window for the
// kinds that move it. The first score is the reference's own answer to the same request.
func (j *judging) recall(asked []evidence.Family) error {
	ours := reply{}
	v := statistic.NoReference
	if len(j.Scores) > 0 {
		if ours, v = read(j.Scores[0].Raw); v != statistic.None {
			v = statistic.NoReference
		}
	}
	if v != statistic.None {
		j.void(v, asked...)
		return nil
	}
	needles := make([]string, len(j.Plan.Asked))
	for i, n := range j.Plan.Asked {
		needles[i] = j.Needles[n]
	}
	parts, v := statistic.Recall(needles, ours.text, j.reply.text)
	if v != statistic.None {
		j.void(v, asked...)
		return nil
	}
	if j.Plan.Kind == probe.Recall {
		return j.recalled(asked, parts, ours)
	}
	j.measure(needles, ours.text)
	lost, err := j.lost(parts, len(needles))
	j.out.CheckPassed = j.Plan.Kind == probe.Check && !lost
	return err
}

// recalled judges a recall.
func (j *judging) recalled(asked []evidence.Family, parts statistic.Parts, ours reply) error {
	if wants(asked, evidence.Recall) {
		if err := j.parts(evidence.Recall, parts, statistic.None); err != nil {
			return err
		}
		lost, err := j.lost(parts, len(j.Plan.Asked))
		if err != nil {
			return err
		}
		j.out.Recalled = !lost && j.Plan.Flow == probe.Hidden && (!j.trims() || j.observed(evidence.Recall))
	}
	if !wants(asked, evidence.Usage) {
		return nil
	}
	// The reference has not scored this answer, so that only the prompt's tokens are ours.
	return j.claims(ours.prompt, max(1, j.Answer.ClaimedOutput), "", score{})
}

// lost reports whether more needles are missing than an honest host misses.
func (j *judging) lost(parts statistic.Parts, asked int) (bool, error) {
	c, ok := j.calibrations[evidence.Recall]
	if !ok {
		return parts[0]*lostShare > float64(asked), nil
	}
	exceeded, err := c.Exceeds(parts)
	if err != nil {
		return false, bad("the calibration of %v has not %d parts", evidence.Recall, len(parts))
	}
	return exceeded, nil
}

// measure fills the needles of a measurement. The chance that the reference returns one is
// estimated from this prompt by Laplace's rule of succession, the same for all needles,
// because one answer says little of one place.
func (j *judging) measure(needles []string, ours string) {
	hits := 0
	for _, found := range statistic.Recalled(needles, ours) {
		if found {
			hits++
		}
	}
	chance := float64(hits+1) / float64(len(needles)+2)
	for i, returned := range statistic.Recalled(needles, j.reply.text) {
		at := max(1, min(j.Plan.FromEnd[j.Plan.Asked[i]], window.MaxTokens))
		j.out.Needles = append(j.out.Needles, window.Needle{FromEnd: at, Recall: chance, Returned: returned})
	}
}
