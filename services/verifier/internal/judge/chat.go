package judge

import (
	"fmt"
	"math"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// scored judges a chat by the score of its answer.
func (j *judging) scored(asked []evidence.Family) error {
	if v := j.shown(); v != statistic.None {
		j.void(v, asked...)
		return nil
	}
	s, _ := j.scoreOf(0)
	if s.void != statistic.None {
		j.void(s.void, asked...)
		return nil
	}
	if wants(asked, evidence.Greedy) {
		parts, v := statistic.Greedy(statistic.First(s.judged))
		if err := j.parts(evidence.Greedy, parts, v); err != nil {
			return err
		}
	}
	if wants(asked, evidence.Sampled) {
		if err := j.sampled(s); err != nil {
			return err
		}
	}
	if wants(asked, evidence.Logprobs) {
		parts, v := j.declared(s)
		if err := j.parts(evidence.Logprobs, parts, v); err != nil {
			return err
		}
	}
	j.compare(asked)
	switch {
	case !wants(asked, evidence.Usage):
		return nil
	case j.Plan.Kind == probe.Replay:
		return j.replayed(s)
	}
	return j.claims(s.prompt, j.output(s), statistic.Ending(j.reply.finish), s)
}

// shown returns Blank for a whole answer that shows nothing, and None for another. An answer
// that the plan left may have been about to begin.
func (j *judging) shown() statistic.Void {
	switch {
	case !j.trims() || j.text(j.reply) != "":
		return statistic.None
	case j.Plan.HangUp > 0:
		return statistic.TooShort
	}
	return statistic.Blank
}

// compare compares the scores of two hosts by the families that have an X, for the guard
// against references that differ.
func (j *judging) compare(asked []evidence.Family) {
	second, ok := j.scoreOf(1)
	if !ok || second.void != statistic.None {
		return
	}
	for _, f := range []evidence.Family{evidence.Greedy, evidence.Logprobs} {
		parts, v := statistic.Greedy(statistic.First(second.judged))
		if f == evidence.Logprobs {
			parts, v = j.declared(second)
		}
		first, judged := j.out.Parts[f]
		if !judged || v != statistic.None || !wants(asked, f) {
			continue
		}
		c, ok := j.calibration(f)
		if !ok {
			continue
		}
		one, errOne := c.X(first)
		other, errOther := c.X(parts)
		if errOne != nil || errOther != nil {
			continue
		}
		apart := math.Abs(min(one, calibration.Tau) - min(other, calibration.Tau))
		j.out.Compared, j.out.Apart = true, max(j.out.Apart, apart)
	}
}

// sampled judges family R: the answer's likelihood ratios against the alternatives of the
// plan that are calibrated. All of them must be known: an alternative that a provider can
// hide from by its answer's text would be left out for a reason that the answer gives.
func (j *judging) sampled(s score) error {
	c, calibrated := j.calibration(evidence.Sampled)
	var r evidence.Ratios
	bound := 0
	for _, g := range j.Plan.Alternatives {
		ratio, v := j.ratio(s, g)
		m, known := c.Ratio(g)
		switch {
		case v == statistic.None:
			j.out.Ratios[g] = ratio
		case calibrated && known:
			j.void(v, evidence.Sampled)
			return nil
		}
		if !calibrated || !known {
			continue
		}
		u, err := m.Bound()
		if err != nil {
			continue // of too few answers to have a bound
		}
		if err := r.Set(g, ratio, u); err != nil {
			return fmt.Errorf("weigh an answer: %w", err)
		}
		bound++
	}
	switch {
	case len(j.out.Ratios) == 0:
		j.void(statistic.NoReference, evidence.Sampled)
		return nil
	case bound == 0:
		return nil
	}
	o, err := evidence.Weighed(r)
	if err != nil {
		return fmt.Errorf("weigh an answer: %w", err)
	}
	j.out.Observations = append(j.out.Observations, o)
	return nil
}

// ratio returns the answer's likelihood ratio against an alternative.
func (j *judging) ratio(s score, g evidence.Alternative) (float64, statistic.Void) {
	switch g {
	case evidence.Cooler:
		return statistic.RatioAtTemperature(statistic.First(s.judged), statistic.Cool)
	case evidence.Hotter:
		return statistic.RatioAtTemperature(statistic.First(s.judged), statistic.Hot)
	default:
	}
	other := j.alternative(g)
	if other.void != statistic.None {
		return 0, other.void
	}
	return statistic.RatioAgainst(statistic.First(s.judged), statistic.First(other.judged))
}

// declared judges family C. It has two parts always: at another temperature than 0 the
// second says nothing and is 0, so that one calibration holds for both.
func (j *judging) declared(s score) (statistic.Parts, statistic.Void) {
	var declared []statistic.Position
	for _, d := range j.reply.documents {
		var v statistic.Void
		if declared, v = statistic.Content(declared, d); v != statistic.None {
			return nil, v
		}
	}
	parts, v := j.compared(s, declared)
	if v == statistic.None && !j.Plan.Greedy {
		parts = append(parts, 0)
	}
	return parts, v
}

// compared compares declared log-probabilities with a reference's.
func (j *judging) compared(s score, declared []statistic.Position) (statistic.Parts, statistic.Void) {
	if j.trims() {
		return s.Declared(declared, j.reply.text, j.Plan.Greedy)
	}
	return statistic.Declared(s.Positions, declared, j.reply.text, j.Plan.Greedy)
}

// claims judges family U by what the engine claims. Without a claim, or without our count,
// nothing is said.
func (j *judging) claims(prompt, output int64, ending statistic.Ending, s score) error {
	if !j.Answer.Claimed || prompt == 0 {
		j.void(statistic.NoReference, evidence.Usage)
		return nil
	}
	parts, v := statistic.Usage{
		ClaimedPrompt: j.Answer.ClaimedPrompt, Prompt: prompt, ClaimedOutput: j.Answer.ClaimedOutput, Output: output,
		Asked: int64(j.Plan.MaxTokens), Ending: ending, Scored: s.ended, Best: s.best, End: s.end,
	}.Judge()
	return j.parts(evidence.Usage, parts, v)
}

// replayed judges family U by the answer to an earlier probe with the same prompt. It needs
// no calibration: the bound of the probability is in the statistic.
func (j *judging) replayed(s score) error {
	earlier, v := read(j.Earlier)
	if v != statistic.None {
		j.void(statistic.NoReference, evidence.Usage) // it was usable when it came
		return nil
	}
	sum, v := statistic.Total(s.Positions)
	if v != statistic.None {
		j.void(v, evidence.Usage)
		return nil
	}
	return j.observe(evidence.Usage, statistic.Replayed(j.text(earlier), j.text(j.reply), sum))
}

// embedding judges family B by a vector and the reference's to the same text.
func (j *judging) embedding(asked []evidence.Family) error {
	if !wants(asked, evidence.Greedy) {
		return nil
	}
	if len(j.Scores) == 0 {
		j.void(statistic.NoReference, evidence.Greedy)
		return nil
	}
	ours, v := read(j.Scores[0].Raw)
	if v != statistic.None {
		j.void(statistic.NoReference, evidence.Greedy)
		return nil
	}
	parts, v := statistic.Embedding(ours.vector, j.reply.vector)
	return j.parts(evidence.Greedy, parts, v)
}
