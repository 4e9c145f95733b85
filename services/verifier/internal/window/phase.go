package window

import "math"

// Phase is what a measurement waits for.
type Phase uint8

// The phases. Measured and Abandoned are final.
const (
	// Measuring waits for the answer to the planned prompt.
	Measuring Phase = iota + 1
	// Checking waits for the prompt of CheckTokens.
	Checking
	// Measured is that the window is known.
	Measured
	// Abandoned is that MaxPrompts prompts did not suffice.
	Abandoned
)

// String returns the phase's name.
func (p Phase) String() string {
	switch p {
	case Measuring:
		return "measuring"
	case Checking:
		return "checking"
	case Measured:
		return "measured"
	case Abandoned:
		return "abandoned"
	default:
		return "unknown phase"
	}
}

// trigger is what a prompt brought.
type trigger uint8

const (
	wide      trigger = iota // the interval is still too wide
	narrowed                 // the interval is below maxInterval
	confirmed                // the check passed
	failed                   // the check did not
)

// moves are the transitions: a prompt's trigger in a phase leads to a phase. Any other
// pair does not happen.
var moves = map[Phase]map[trigger]Phase{
	Measuring: {wide: Measuring, narrowed: Checking},
	Checking:  {confirmed: Measured, failed: Measuring},
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

// CheckTokens returns the length of the prompt that must pass before the measurement ends:
// .97 of Window.
func (m *Measurement) CheckTokens() int { return int(float64(checkShare * float64(m.Window()))) }

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

// Plan is the next prompt.
type Plan struct {
	// Tokens is the prompt's length: 1.1 times the interval's upper end, at most the
	// largest window, and after a refusal at most half way, in the logarithm, from the
	// interval's lower end to the refused length, because the next one may be refused too.
	Tokens int
	// FromEnd are the needles' distances from the prompt's end in tokens, ascending.
	FromEnd [Needles]int
}

// Plan returns the prompt that the measurement waits for in phase Measuring. The caller
// may move needles and lengthen the prompt a little, and reports where needles really
// were.
func (m *Measurement) Plan() Plan {
	low, high := m.Interval()
	length := min(float64(m.largest), float64(margin*high))
	if m.refused > 0 {
		length = min(length, math.Sqrt(float64(low*float64(m.refused))))
	}
	p := Plan{Tokens: max(m.smallest, int(math.RoundToEven(length)))}
	high = min(high, float64(p.Tokens))
	for i := range p.FromEnd {
		at := between(low, max(low, high), (float64(i)+.5)/Needles)
		p.FromEnd[i] = min(p.Tokens, int(math.RoundToEven(at)))
	}
	return p
}
