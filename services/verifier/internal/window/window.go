// Package window measures how many tokens of a prompt a provider really reads.
//
// A provider that states a larger context window than it serves loses the front of long
// prompts without saying so. A prompt holds needles (names with digits) at known
// distances from its end, and all of them are asked for. A needle that lies within the
// window comes back with the recall of the reference at the same place; a needle beyond
// it is not seen and comes back only by chance. Bayes' rule turns this into a posterior
// over 400 windows, spaced evenly in the logarithm from the smallest to the largest that
// may be true, all of them equally likely at first:
//
//	P(w | needles) ∝ P(w) · Π r_i or 1−r_i (needle i within w) · Π ε or 1−ε (beyond w)
//
// The next prompt asks where the posterior is undecided: sixteen needles, spaced evenly
// in the logarithm over the interval that holds 98% of the posterior, in a prompt 1.1
// times as long as its upper end. Each prompt divides the interval by up to sixteen, and
// a lost needle that the model merely overlooked is outvoted by its neighbours. Bisecting
// sizes has one answer a prompt instead and no way to doubt it. The measurement ends with
// an interval below 3% and is then checked: one more prompt at .97 of the measured window
// must pass, else the measurement starts anew.
//
// A refusal ("too long") is another loss, and an honest one: nothing is claimed falsely
// about a prompt that is not taken. It excludes all windows that would have taken the
// prompt, for the whole measurement.
//
// No probability becomes 0 by needles, so that no single answer, however odd, excludes
// the truth. The arithmetic is + − × ÷ in a fixed order, with exponentials and logarithms
// of package exact, and a state has one binary form (package form): a replay gives the
// same bits. A Measurement is a value and not safe for concurrent use.
package window

import (
	"errors"
	"fmt"
	"math"

	"svc.internal/services/verifier/internal/exact"
)

const (
	// Candidates is the number of windows that the posterior is over.
	Candidates = 400
	// Needles is the number of needles of a planned prompt.
	Needles = 16
	// MaxPrompts bounds a measurement. An hourly measurement takes two days then.
	MaxPrompts = 48
	// MinTokens is the smallest window that can be measured.
	MinTokens = 64
	// MaxTokens is the largest window that can be measured.
	MaxTokens = 1 << 29
	// maxSpan bounds largest ÷ smallest, so that neighbours differ by 2.1% at most and
	// an interval of two is below maxInterval.
	maxSpan = 4_096
	// maxInterval is the ratio of the interval's ends below which a measurement ends.
	maxInterval = 1.03
	// tail is what the interval leaves out on each side.
	tail = .01
	// margin is how much longer a planned prompt is than the interval's upper end.
	margin = 1.1
	// checkShare is the share of the measured window at which the last prompt must pass.
	checkShare = .97
	// chance is ε, the chance that a needle beyond the window comes back.
	chance = .002
	// certainty bounds recalls from above, because no needle is returned always.
	certainty = .998
	// unlikely is the smallest probability of a candidate that no refusal excluded: 2⁻¹⁰⁰.
	unlikely = 1.0 / (1 << 100)
)

var (
	// ErrSpan is the error for windows that cannot be measured.
	ErrSpan = errors.New("not a span of windows")
	// ErrPrompt is the error for a prompt that cannot have been planned.
	ErrPrompt = errors.New("not a prompt of a measurement")
	// ErrPhase is the error for an event that the measurement does not wait for.
	ErrPhase = errors.New("the measurement waits for something else")
)

// Measurement is the state of one measurement. New makes it. Equal states are equal by ==.
type Measurement struct {
	smallest, largest int
	refused           int // the shortest prompt that was refused, 0 without
	prompts           int
	phase             Phase
	posterior         [Candidates]float64
}

// New begins a measurement of a window that is at least smallest and at most largest
// tokens. largest is the longest prompt that the provider's statement promises to take,
// which is the stated window without the tokens of the answer. It must be above smallest
// and at most 4,096 times as large.
func New(smallest, largest int) (Measurement, error) {
	if smallest < MinTokens || largest > MaxTokens || largest <= smallest || largest/maxSpan > smallest {
		return Measurement{}, fmt.Errorf("%w: %d to %d tokens", ErrSpan, smallest, largest)
	}
	m := Measurement{smallest: smallest, largest: largest, phase: Measuring}
	m.restart()
	return m, nil
}

// restart sets the posterior to the prior: all windows that were not refused alike.
func (m *Measurement) restart() {
	for i := range m.posterior {
		m.posterior[i] = 1
	}
	m.exclude()
	m.normalize()
}

// candidate returns the window of an index, in tokens.
func (m *Measurement) candidate(i int) float64 {
	switch i {
	case 0:
		return float64(m.smallest)
	case Candidates - 1:
		return float64(m.largest)
	}
	return between(float64(m.smallest), float64(m.largest), float64(i)/(Candidates-1))
}

// between returns low·(high/low)^share.
func between(low, high, share float64) float64 {
	return low * exact.Exp(float64(float64(exact.Log2(high/low)*math.Ln2)*share))
}

// Needle is a needle of a prompt that was answered.
type Needle struct {
	// FromEnd is the distance in tokens from the needle's start to the prompt's end.
	FromEnd int
	// Recall is the chance that the reference returns the needle, in [0, 1].
	Recall float64
	// Returned reports whether the provider returned it.
	Returned bool
}

// Answered moves the posterior by an answered prompt of 1 to Needles needles.
func (m *Measurement) Answered(needles []Needle) error {
	if m.phase != Measuring {
		return fmt.Errorf("%w: it is %v", ErrPhase, m.phase)
	}
	if len(needles) == 0 || len(needles) > Needles {
		return fmt.Errorf("%w: %d needles", ErrPrompt, len(needles))
	}
	for _, n := range needles {
		if n.FromEnd < 1 || n.FromEnd > MaxTokens || !(n.Recall >= 0 && n.Recall <= 1) {
			return fmt.Errorf("%w: a needle at %d of recall %v", ErrPrompt, n.FromEnd, n.Recall)
		}
	}
	for i := range m.posterior {
		w := m.candidate(i)
		for _, n := range needles {
			m.posterior[i] *= n.likelihood(w)
		}
	}
	m.normalize()
	m.took(m.narrow())
	return nil
}

// likelihood returns the chance of what became of the needle if the window is w tokens.
func (n Needle) likelihood(w float64) float64 {
	p := chance
	if float64(n.FromEnd) <= w {
		p = min(certainty, max(chance, n.Recall))
	}
	if n.Returned {
		return p
	}
	return 1 - p
}

// Refused moves the posterior by a prompt of so many tokens that was refused as too long.
// Only shorter windows remain. The smallest one remains always: of a provider that
// refuses even that, the measurement says that its window is at most the smallest.
//
// A refusal of the check's prompt makes the measurement start anew below it.
func (m *Measurement) Refused(tokens int) error {
	if m.phase != Measuring && m.phase != Checking {
		return fmt.Errorf("%w: it is %v", ErrPhase, m.phase)
	}
	if tokens < 1 || tokens > 2*MaxTokens {
		return fmt.Errorf("%w: %d tokens", ErrPrompt, tokens)
	}
	if m.refused == 0 || tokens < m.refused {
		m.refused = tokens
	}
	if m.phase == Checking {
		m.restart()
		m.took(failed)
		return nil
	}
	m.exclude()
	m.normalize()
	m.took(m.narrow())
	return nil
}

// Checked ends the measurement by the prompt of CheckTokens. If it did not pass, the
// measurement starts anew.
func (m *Measurement) Checked(passed bool) error {
	if m.phase != Checking {
		return fmt.Errorf("%w: it is %v", ErrPhase, m.phase)
	}
	if passed {
		m.took(confirmed)
		return nil
	}
	m.restart()
	m.took(failed)
	return nil
}

// exclude sets the windows that would have taken a refused prompt to 0.
func (m *Measurement) exclude() {
	if m.refused == 0 {
		return
	}
	for i := 1; i < Candidates; i++ {
		if m.excluded(i) {
			m.posterior[i] = 0
		}
	}
}

// excluded reports whether a refusal excludes a candidate.
func (m *Measurement) excluded(i int) bool {
	return m.refused > 0 && i > 0 && m.candidate(i) >= float64(m.refused)
}

// normalize makes the posterior add up to 1, but for the least probability that every
// candidate keeps that is not excluded.
func (m *Measurement) normalize() {
	sum := 0.0
	for _, p := range m.posterior {
		sum += p
	}
	for i, p := range m.posterior {
		if !m.excluded(i) {
			m.posterior[i] = max(unlikely, p/sum)
		}
	}
}

// took counts a prompt and moves the phase. Without prompts left it ends a measurement that
// would go on.
func (m *Measurement) took(t trigger) {
	m.prompts++
	m.phase = moves[m.phase][t]
	if m.phase != Measured && m.prompts >= MaxPrompts {
		m.phase = Abandoned
	}
}

// narrow returns what the posterior's interval says.
func (m *Measurement) narrow() trigger {
	if low, high := m.Interval(); high < maxInterval*low {
		return narrowed
	}
	return wide
}

// AtSmallest reports whether the window is the smallest one of the measurement, or a smaller
// one, for all that is known.
func (m *Measurement) AtSmallest() bool {
	low, _ := m.Interval()
	return m.narrow() == narrowed && low <= m.candidate(0)
}

// Largest returns the largest window of the measurement.
func (m *Measurement) Largest() int { return m.largest }

// Abandon ends a measurement that has no result yet. One that has stays as it is.
func (m *Measurement) Abandon() {
	if m.phase == Measuring || m.phase == Checking {
		m.phase = Abandoned
	}
}

// Phase returns what the measurement waits for.
func (m *Measurement) Phase() Phase { return m.phase }

// Prompts returns the number of prompts so far.
func (m *Measurement) Prompts() int { return m.prompts }

// Interval returns the ends, in tokens, of the interval that holds 98% of the posterior.
func (m *Measurement) Interval() (low, high float64) {
	return m.quantile(tail), m.quantile(1 - tail)
}

// Window returns the measured window in whole tokens: the posterior's median. It is known
// to about 3% when the phase is Measured, and the best guess before.
func (m *Measurement) Window() int { return int(math.RoundToEven(m.quantile(.5))) }

// quantile returns the smallest candidate up to which the posterior adds up to share.
func (m *Measurement) quantile(share float64) float64 {
	sum, last := 0.0, 0
	for i, p := range m.posterior {
		if p > 0 {
			last = i
		}
		if sum += p; sum >= share {
			break
		}
	}
	return m.candidate(last)
}
