package battery

import (
	"slices"
	"time"
)

// Timing is one answer: its tokens by our count, and the time from its first token to its
// last by the hub's clock. An answer that came in one chunk took no time, and is no timing.
type Timing struct {
	Tokens int64
	Took   time.Duration
}

// timed reports whether the answer has a speed.
func (t Timing) timed() bool { return t.Tokens > 0 && t.Took > 0 }

// Speed is what was timed at one time: answers alone, and times to first token at 4,096
// tokens. FirstTokens is empty for models of smaller windows.
type Speed struct {
	Answers     []Timing
	FirstTokens []time.Duration
}

func (s Speed) possible() bool {
	if len(s.Answers) > MaxTimings || len(s.FirstTokens) > MaxTimings {
		return false
	}
	for _, a := range s.Answers {
		if a.Tokens < 0 || a.Tokens > MaxTokens || a.Took < 0 {
			return false
		}
	}
	return !slices.ContainsFunc(s.FirstTokens, func(d time.Duration) bool { return d < 0 })
}

// enough reports whether enough was timed to judge a speed.
func (f Facts) enough(s Speed) bool {
	timed, least := 0, minTimed
	if f.Quick {
		least = 1
	}
	for _, a := range s.Answers {
		if a.timed() {
			timed++
		}
	}
	return timed >= least && (f.Small || len(s.FirstTokens) >= least)
}

// judgeSpeed judges the run by its speeds, all else being in order.
func (f Facts) judgeSpeed() Judgement {
	findings := f.slow(f.First)
	if len(findings) == 0 {
		return Judgement{Outcome: Pass}
	}
	for _, s := range f.Repeats {
		if !f.enough(s) {
			return Judgement{Outcome: Void, Findings: []Finding{TooLittle}}
		}
		if len(f.slow(s)) == 0 {
			return Judgement{Outcome: Pass}
		}
	}
	waits := []time.Duration{FirstRepeat, SecondRepeat}
	if len(f.Repeats) < len(waits) {
		return Judgement{Outcome: TimeAgain, Findings: findings, Wait: waits[len(f.Repeats)]}
	}
	return Judgement{Outcome: Fail, Findings: findings}
}

// slow are the findings of one speed.
func (f Facts) slow(s Speed) []Finding {
	var findings []Finding
	if f.Quick {
		return nil
	}
	if TokensPerSecond(s.Answers) < max(MinSpeed, f.ClassMedian/2) {
		findings = append(findings, SlowTokens)
	}
	if !f.Small && Quantile95(s.FirstTokens) > MaxFirstToken {
		findings = append(findings, SlowFirst)
	}
	return findings
}

// TokensPerSecond is the median speed of the answers that have one, the lower one of two
// middle ones, and 0 without any.
func TokensPerSecond(answers []Timing) float64 {
	var speeds []float64
	for _, a := range answers {
		if a.timed() {
			speeds = append(speeds, float64(a.Tokens)/(float64(a.Took)/float64(time.Second)))
		}
	}
	if len(speeds) == 0 {
		return 0
	}
	slices.Sort(speeds)
	return speeds[(len(speeds)-1)/2]
}

// Quantile95 is the smallest duration with at least 95% of all at or below it.
func Quantile95(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[(95*len(sorted)+99)/100-1]
}
