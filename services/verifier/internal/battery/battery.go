// Package battery judges a benchmark run of a provider and a model from measured facts.
//
// All facts are ours: the hub's clocks and our own counts of tokens. A run passes if
//
//   - generation alone reaches max(5 tokens/s, half the GPU class's median), the median of
//     the timed answers counting;
//   - the 95% quantile of the time to first token at 4,096 tokens is at most 5 s;
//   - at least 98% of the questions are answered;
//   - the measured context window is at least 95% of the stated one;
//   - fewer than 3 of 40 observations of families B and C exceed. Where 3 or more do, 40
//     others are asked at once, and only the second count decides.
//
// All questions of a run are different: an engine answers the same question in the same way
// at temperature 0, so that a repeated one would count a single observation twice. A stratum
// without a usable calibration has nothing that could exceed. Its runs are not judged by
// the last rule, and say so.
//
// An honest observation exceeds with probability .01 at most, so that both counts of an
// honest run fail with P(Bin(40, .01) ≥ 3)² = 5.6·10⁻⁵ (the binomial's upper tail, computed
// in a test), and two runs in a row in one of a year's 12 pairs with 4·10⁻⁸.
//
// Slowness passes by: a slow run fails only if repeats one hour and six hours later are
// slow too. A run during which the hub, the network or a reference failed is void, and so
// is a run of which too little was measured: too few timings or questions, or no window. A
// run in which the provider's connection was lost does not fail by what is unanswered: a bad
// line states nothing false.
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
	// Questions is how many observations of B and C a run has, MinQuestions how many of
	// them must not be void, and MaxExceeding how many must not exceed.
	Questions    = 40
	MinQuestions = 30
	MaxExceeding = 3
	// minAnsweredPercent and minWindowPercent are shares of what was asked and stated.
	minAnsweredPercent = 98
	minWindowPercent   = 95
	// minTimed is the number of timings below which nothing is known of a speed.
	minTimed = 3
	// FirstRepeat and SecondRepeat are when a slow run is timed again.
	FirstRepeat  = time.Hour
	SecondRepeat = 6 * time.Hour
)

// Question is a question of family B or C whose observation was not void.
type Question struct {
	// ID names the question's prompt.
	ID string
	// Exceeded reports whether the answer exceeded in the one family that was chosen for
	// the question before it was asked. Both families of one answer would exceed up to
	// twice as often (package evidence).
	Exceeded bool
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
	// Asked and Answered count all questions of the run, and Offline those that are unanswered
	// because the provider's connection was lost.
	Asked, Answered int
	Offline         int `json:",omitempty"`
	// StatedTokens and MeasuredTokens are the context window. MeasuredTokens is 0 where it
	// was not measured.
	StatedTokens, MeasuredTokens int64
	// Quick reports whether the run is one of a development on loopback: one timing is
	// enough, no speed is too slow, and few questions are asked. One of them that is not
	// answered makes the run void, because a busy machine loses one of few.
	Quick bool
	// Uncalibrated reports whether the stratum has no usable calibration of B and C.
	// Nothing exceeds then.
	Uncalibrated bool
	// Questions are the questions that were asked first, and Again those that were asked
	// after AskAgain; nil if none were.
	Questions, Again []Question
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
	// AskAgain wants other questions of B and C, at once.
	AskAgain Outcome = "ask_again"
	// TimeAgain wants the speed timed again, after FirstRepeat or SecondRepeat.
	TimeAgain Outcome = "time_again"
)

// Finding is a rule that a run did not meet, or that could not be asked of it.
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
	// RepeatedQuestion is a question that was asked twice.
	RepeatedQuestion Finding = "repeated_question"
	// Uncalibrated is a stratum without a usable calibration: nobody judged whether the
	// answers are those of the model. Every judgement of such a run has it, a pass too.
	Uncalibrated Finding = "uncalibrated"
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
	j := f.judge()
	if f.Uncalibrated {
		j.Findings = append(j.Findings, Uncalibrated)
	}
	return j
}

func (f Facts) judge() Judgement {
	switch {
	case f.Disturbed:
		return Judgement{Outcome: Void, Findings: []Finding{Disturbed}}
	case !f.possible():
		return Judgement{Outcome: Void, Findings: []Finding{ImpossibleRun}}
	case f.repeats():
		return Judgement{Outcome: Void, Findings: []Finding{RepeatedQuestion}}
	}
	findings := f.lasting()
	if (f.Quick || f.Offline > 0) && slices.Equal(findings, []Finding{Unanswered}) {
		return Judgement{Outcome: Void, Findings: findings}
	}
	if f.exceeds(f.Questions) && f.exceeds(f.Again) {
		findings = append(findings, OtherAnswers)
	}
	if len(findings) > 0 {
		return Judgement{Outcome: Fail, Findings: findings}
	}
	if f.MeasuredTokens == 0 || !f.enough(f.First) || !f.enoughQuestions() {
		return Judgement{Outcome: Void, Findings: []Finding{TooLittle}}
	}
	if f.exceeds(f.Questions) && f.Again == nil {
		return Judgement{Outcome: AskAgain, Findings: []Finding{OtherAnswers}}
	}
	return f.judgeSpeed()
}

// possible reports whether the facts can be those of a run.
func (f Facts) possible() bool {
	counts := f.Asked > 0 && f.Asked <= MaxTokens && f.Answered >= 0 && f.Offline >= 0 &&
		f.Answered <= f.Asked-f.Offline &&
		len(f.Questions) <= Questions && len(f.Again) <= Questions &&
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

// lasting are the findings that no repeat undoes.
func (f Facts) lasting() []Finding {
	var findings []Finding
	if f.Answered*100 < f.Asked*minAnsweredPercent {
		findings = append(findings, Unanswered)
	}
	if f.MeasuredTokens > 0 && f.MeasuredTokens*100 < f.StatedTokens*minWindowPercent {
		findings = append(findings, SmallWindow)
	}
	return findings
}

// repeats reports whether a question was asked twice, or has no id.
func (f Facts) repeats() bool {
	seen := make(map[string]bool, 2*Questions)
	for _, q := range slices.Concat(f.Questions, f.Again) {
		if q.ID == "" || seen[q.ID] {
			return true
		}
		seen[q.ID] = true
	}
	return false
}

// exceeds reports whether too many of the questions exceeded.
func (f Facts) exceeds(asked []Question) bool {
	n := 0
	for _, q := range asked {
		if q.Exceeded {
			n++
		}
	}
	return !f.Uncalibrated && n >= MaxExceeding
}

// enoughQuestions reports whether enough questions were not void.
func (f Facts) enoughQuestions() bool {
	if f.Quick || f.Uncalibrated {
		return true
	}
	return len(f.Questions) >= MinQuestions && (f.Again == nil || len(f.Again) >= MinQuestions)
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
