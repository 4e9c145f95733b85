package window

import "math"

// CheckTokens returns the length of the prompt that must pass before the measurement ends:
// .97 of Window.
func (m *Measurement) CheckTokens() int { return int(float64(checkShare * float64(m.Window()))) }

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
