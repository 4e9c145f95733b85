// Package battery judges a benchmark run of a provider and a model from measured facts.
//
// All facts are ours: the hub's clocks and our own counts of tokens. A run passes if
//
//   - generation alone reaches max(5 tokens/s, half the GPU class's median), the median of
//     the timed answers counting;
//   - the 95% quantile of the time to first token at 4,096 tokens is at most 5 s;
//   - at least 98% of the questions are answered;
//   - the measured context window is at least 95% of the stated one;
//   - fewer than 3 of 40 observations of families B and C exceed. Where 3 or more do, the
//     40 are asked once more at once, and only the second count decides.
//
// An honest observation exceeds with probability .01 at most, so that both counts of an
// honest run fail with P(Bin(40, .01) ≥ 3)² = 5.6·10⁻⁵ (the binomial's upper tail, computed
// in a test), and two runs in a row in one of a year's 12 pairs with 4·10⁻⁸.
//
// Slowness passes by: a slow run fails only if repeats one hour and six hours later are
// slow too. A run during which the hub, the network or a reference failed is void, and so
// is a run of which too little was measured.
package battery

import (
	"slices"
	"time"
)

// The rules of a run.
const (
	// MinSpeed is the slowest generation in tokens per second, whatever the GPU.
	MinSpeed = 5.0
	// MaxFirstToken is the longest time to first token at 4,096 tokens.
	MaxFirstToken = 5 * time.Second
	// SpeedAnswers and SpeedTokens are what generation alone is timed with.
	SpeedAnswers = 5
	SpeedTokens  = 256
	// Questions is how many observations of B and C a run has, and MaxExceeding how many
	// of them must not exceed.
	Questions    = 40
	MaxExceeding = 3
	// minAnsweredPercent and minWindowPercent are shares of what was asked and stated.
	minAnsweredPercent = 98
	minWindowPercent   = 95
	// minTimed is the number of timings below which nothing is known of a speed.
	minTimed = 3
	// FirstRepeat and SecondRepeat are when a slow run is timed again.
	FirstRepeat  = time.Hour
	SecondRepeat = 6 * time.Hour
	// MaxTimings bounds the timings of a run, and MaxTokens a number of tokens.
	MaxTimings = 1024
	MaxTokens  = 1 << 30
)

// Timing is one answer: its tokens by our count, and the time from its first token to its
// last by the hub's clock.
type Timing struct {
	Tokens int64
	Took   time.Duration
}

// Speed is what was timed at one time: answers alone, and times to first token at 4,096
// tokens. FirstTokens is empty for models of smaller windows.
type Speed struct {
	Answers     []Timing
	FirstTokens []time.Duration
}

// Facts are what a run measured.
type Facts struct {
	// Disturbed reports whether the hub, the network or a reference failed meanwhile.
	Disturbed bool
	// First is the speed of the run, Repeats that of the repeats after FirstRepeat and
	// SecondRepeat.
	First   Speed
	Repeats []Speed
	// ClassMedian is the median speed of the GPU class in tokens per second, or 0 where it
	// is unknown.
	ClassMedian float64
	// Small reports whether the model's window is below 4,096 tokens, so that no time to
	// first token is measured there.
	Small bool
	// Asked and Answered count all questions of the run.
	Asked, Answered int
	// StatedTokens and MeasuredTokens are the context window.
	StatedTokens, MeasuredTokens int64
	// Exceeding is how many of Questions exceeded, and Again how many of the Questions
	// asked again, if AskedAgain.
	Exceeding, Again int
	AskedAgain       bool
}

// Outcome is what a run comes to.
type Outcome string

// The outcomes.
const (
	// Pass and Fail are final.
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	// Void is final and counts for nothing.
	Void Outcome = "void"
	// AskAgain wants the questions of B and C once more, at once.
	AskAgain Outcome = "ask_again"
	// TimeAgain wants the speed timed again, after FirstRepeat or SecondRepeat.
	TimeAgain Outcome = "time_again"
)

// Finding is a rule that a run did not meet.
type Finding string

// The findings.
const (
	Disturbed     Finding = "disturbed"
	TooLittle     Finding = "too_little_measured"
	SlowTokens    Finding = "slow_tokens"
	SlowFirst     Finding = "slow_first_token"
	Unanswered    Finding = "unanswered"
	SmallWindow   Finding = "small_window"
	OtherAnswers  Finding = "other_answers"
	ImpossibleRun Finding = "impossible_facts"
)

// Judgement is an outcome with its findings, in the order of the rules.
type Judgement struct {
	Outcome  Outcome
	Findings []Finding
	// Wait is how long after the run the speed is timed again, for TimeAgain.
	Wait time.Duration
}

// Judge judges a run. A finding that repeats cannot undo fails the run at once.
func Judge(f Facts) Judgement {
	switch {
	case f.Disturbed:
		return Judgement{Outcome: Void, Findings: []Finding{Disturbed}}
	case !f.possible():
		return Judgement{Outcome: Void, Findings: []Finding{ImpossibleRun}}
	}
	findings := f.lasting()
	if f.otherAnswers() {
		findings = append(findings, OtherAnswers)
	}
	if len(findings) > 0 {
		return Judgement{Outcome: Fail, Findings: findings}
	}
	if !f.enough(f.First) {
		return Judgement{Outcome: Void, Findings: []Finding{TooLittle}}
	}
	if f.Exceeding >= MaxExceeding && !f.AskedAgain {
		return Judgement{Outcome: AskAgain, Findings: []Finding{OtherAnswers}}
	}
	return f.judgeSpeed()
}

// possible reports whether the facts can be those of a run.
func (f Facts) possible() bool {
	counts := f.Asked > 0 && f.Answered >= 0 && f.Answered <= f.Asked && f.Asked <= MaxTokens &&
		f.Exceeding >= 0 && f.Exceeding <= Questions && f.Again >= 0 && f.Again <= Questions &&
		f.StatedTokens > 0 && f.StatedTokens <= MaxTokens && f.MeasuredTokens >= 0 && f.MeasuredTokens <= MaxTokens &&
		len(f.Repeats) <= 2 && f.ClassMedian >= 0 && f.ClassMedian <= MaxTokens
	if !counts || !f.First.possible() {
		return false
	}
	for _, s := range f.Repeats {
		if !s.possible() {
			return false
		}
	}
	return true
}

func (s Speed) possible() bool {
	if len(s.Answers) > MaxTimings || len(s.FirstTokens) > MaxTimings {
		return false
	}
	for _, a := range s.Answers {
		if a.Tokens <= 0 || a.Tokens > MaxTokens || a.Took <= 0 {
			return false
		}
	}
	return !slices.ContainsFunc(s.FirstTokens, func(d time.Duration) bool { return d < 0 })
}

// lasting are the findings that no repeat undoes.
func (f Facts) lasting() []Finding {
	var findings []Finding
	if f.Answered*100 < f.Asked*minAnsweredPercent {
		findings = append(findings, Unanswered)
	}
	if f.MeasuredTokens*100 < f.StatedTokens*minWindowPercent {
		findings = append(findings, SmallWindow)
	}
	return findings
}

// otherAnswers reports whether both counts of B and C are too large.
func (f Facts) otherAnswers() bool {
	return f.Exceeding >= MaxExceeding && f.AskedAgain && f.Again >= MaxExceeding
}

// enough reports whether enough was timed to judge a speed.
func (f Facts) enough(s Speed) bool {
	return len(s.Answers) >= minTimed && (f.Small || len(s.FirstTokens) >= minTimed)
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
	if TokensPerSecond(s.Answers) < max(MinSpeed, f.ClassMedian/2) {
		findings = append(findings, SlowTokens)
	}
	if !f.Small && Quantile95(s.FirstTokens) > MaxFirstToken {
		findings = append(findings, SlowFirst)
	}
	return findings
}

// TokensPerSecond is the median speed of the answers, the lower one of two middle ones.
func TokensPerSecond(answers []Timing) float64 {
	if len(answers) == 0 {
		return 0
	}
	speeds := make([]float64, len(answers))
	for i, a := range answers {
		speeds[i] = float64(a.Tokens) / (float64(a.Took) / float64(time.Second))
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

// The rules of a renewal by traffic.
const (
	// RenewalPeriod is the time in which RenewalServed requests must be served.
	RenewalPeriod = 7 * 24 * time.Hour
	RenewalServed = 200
	// RenewalEvidence is the M below which evidence must be.
	RenewalEvidence = 20
)

// Traffic is what consumers' requests say of a provider's model in RenewalPeriod.
type Traffic struct {
	Served int
	M      float64
	// Recalled reports whether a recall passed in that time.
	Recalled bool
}

// Renews reports whether the traffic stands for a benchmark.
func (t Traffic) Renews() bool {
	return t.Served >= RenewalServed && t.M < RenewalEvidence && t.Recalled
}
