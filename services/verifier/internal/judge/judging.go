package judge

import (
	"fmt"
	"slices"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// judging is a record on its way to a judgement.
type judging struct {
	Record
	calibrations map[evidence.Family]calibration.Calibration
	reply        reply
	out          Judgement
}

// trims reports whether the rules of the record trim blanks around answers.
func (j *judging) trims() bool { return j.Version >= trimmed }

// text returns a reply's text as the rules of the record look at it.
func (j *judging) text(r reply) string {
	if j.trims() {
		return statistic.Trim(r.text)
	}
	return r.text
}

// asked returns the families that the plan asks. A visible probe asks the one family whose
// statistic feeds V.
func (j *judging) asked() []evidence.Family {
	if j.Plan.Flow == probe.Visible {
		if j.Plan.Feeds == evidence.NoFamily {
			return nil
		}
		return []evidence.Family{j.Plan.Feeds}
	}
	switch j.Plan.Kind {
	case probe.Greedy:
		return j.withUsage(evidence.Greedy)
	case probe.Sampled:
		return j.withUsage(evidence.Sampled)
	case probe.Logprobs:
		if j.Plan.Greedy {
			return j.withUsage(evidence.Greedy, evidence.Logprobs)
		}
		return j.withUsage(evidence.Sampled, evidence.Logprobs)
	case probe.Recall:
		return j.withUsage(evidence.Recall)
	case probe.Replay:
		return []evidence.Family{evidence.Usage}
	case probe.Embedding:
		return []evidence.Family{evidence.Greedy}
	case probe.Measure, probe.Check, probe.Fingerprint:
	}
	return nil
}

// withUsage adds family U to the others, unless the plan hangs up: what a whole answer would
// have been is unknown then.
func (j *judging) withUsage(others ...evidence.Family) []evidence.Family {
	if j.Plan.HangUp > 0 {
		return others
	}
	return append(others, evidence.Usage)
}

// usable returns why nothing can be made of the answer, or None. An answer that the plan
// left on purpose is usable as far as it came.
func (j *judging) usable() statistic.Void {
	served := j.Answer.Status == 0 || j.Answer.Status >= 200 && j.Answer.Status < 300
	left := j.Plan.HangUp > 0 && j.Plan.Streamed
	if v := j.cut(); v != statistic.None {
		return v
	}
	return statistic.Reply{
		Complete: served && !j.Answer.Failed && !j.Answer.TooLong && (j.Answer.Complete || left),
		Asked:    j.Plan.Offer.Provider.String(), Answered: j.Answer.Served,
	}.Check()
}

// slowPrompt and slowAnswer are the longest prompt and the longest bound, in tokens, at which an
// answer is too slow by its provider's doing. The prompt is what a benchmark wants to be read
// within seconds, and longer answers may end at the time that a gateway gives all requests.
const (
	slowPrompt = 4_096
	slowAnswer = 512
)

// cut returns the Void of an answer that was left because it was too slow or too large. An
// answer without a bound may be as long as the model likes, so that nobody is to blame.
func (j *judging) cut() statistic.Void {
	a := j.Answer
	if j.Version < countsCuts || j.Plan.Unbounded || a.Failed || a.Served != j.Plan.Offer.Provider.String() {
		return statistic.None
	}
	switch {
	case a.Cut == Large:
		return statistic.TooLarge
	case a.Cut == Slow && j.Plan.PromptTokens <= slowPrompt && j.Plan.MaxTokens <= slowAnswer:
		return statistic.TooSlow
	}
	return statistic.None
}

// void records why families say nothing.
func (j *judging) void(v statistic.Void, families ...evidence.Family) {
	for _, f := range families {
		j.out.Voids[f] = v
	}
}

// parts records what a statistic says for a family, and observes it where it is calibrated:
// in the family itself, or in V for a visible probe.
func (j *judging) parts(f evidence.Family, parts statistic.Parts, v statistic.Void) error {
	if v != statistic.None {
		j.void(v, f)
		return nil
	}
	j.out.Parts[f] = parts
	c, ok := j.calibration(f)
	if !ok {
		return nil
	}
	exceeded, err := c.Exceeds(parts)
	if err != nil {
		return bad("the calibration of %v has not %d parts", f, len(parts))
	}
	return j.observe(f, exceeded)
}

// observe adds an observation of a family that has thresholds.
func (j *judging) observe(f evidence.Family, exceeded bool) error {
	if j.Plan.Flow == probe.Visible {
		f = evidence.Visible
	}
	o, err := evidence.Judged(f, exceeded)
	if err != nil {
		return fmt.Errorf("observe %v: %w", f, err)
	}
	j.out.Observations = append(j.out.Observations, o)
	return nil
}

// observed reports whether a family has an observation.
func (j *judging) observed(f evidence.Family) bool {
	return slices.ContainsFunc(j.out.Observations, func(o evidence.Observation) bool { return o.Family() == f })
}

// calibration returns that of a family, if it judges, and records its hash.
func (j *judging) calibration(f evidence.Family) (calibration.Calibration, bool) {
	c, ok := j.calibrations[f]
	if !ok || c.Reach(calibration.MinReferences) == calibration.ReachNothing {
		return calibration.Calibration{}, false
	}
	hash, err := c.Hash()
	if err != nil {
		return calibration.Calibration{}, false // it was decoded, and so it has one
	}
	j.out.Calibrations[f] = hash
	return c, true
}

// wants reports whether a family is asked.
func wants(asked []evidence.Family, f evidence.Family) bool { return slices.Contains(asked, f) }
