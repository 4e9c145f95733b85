package gates

import "inference-bench/internal/figures"

// Level is how one bound was met.
type Level struct {
	Bound float64 `json:"bound"`
	// Met is false of a verdict that is not judged.
	Met bool `json:"met"`
}

// Verdict is a gate beside what was measured.
type Verdict struct {
	Figure   string  `json:"figure"`
	Target   string  `json:"target"`
	Measured float64 `json:"measured"`
	AtLeast  bool    `json:"at_least,omitempty"`
	// Absolute says that Measured is the figure itself although it is
	// otherwise held as a ratio.
	Absolute bool `json:"absolute,omitempty"`
	// Unjudged says that others kept the machine too busy for a figure of time to
	// say anything. The levels then have their bounds, and none is met or missed.
	Unjudged bool `json:"not_judged,omitempty"`
	// A level is nil when there is no such bound, or when what the bound
	// refers to was not measured.
	Gate    *Level `json:"gate,omitempty"`
	Aim     *Level `json:"target_level,omitempty"`
	Stretch *Level `json:"stretch,omitempty"`
}

// Judge holds the table against the gates. What was not measured is left out.
func Judge(t figures.Table, all []Gate) []Verdict {
	var out []Verdict
	for _, g := range all {
		row, ok := t.Row(g.Figure)
		if !ok {
			continue
		}
		cell, ok := row.Cells[g.Target]
		if !ok {
			continue
		}
		v := Verdict{Figure: g.Figure, Target: g.Target, AtLeast: g.AtLeast, Measured: cell.Counts(row.Figure),
			Unjudged: t.Load > MaxLoad && !row.Untimed}
		if row.Ratio && g.refers() {
			v.Absolute, v.Measured = true, cell.Value
		}
		if row.Ratio && !v.Absolute && cell.Ratio == 0 {
			continue // without the reference there is no ratio
		}
		v.Gate, v.Aim, v.Stretch = v.hold(t, g.Gate), v.hold(t, g.Aim), v.hold(t, g.Stretch)
		out = append(out, v)
	}
	return out
}

// refers says whether the gate is a multiple of another target's figure,
// which stands for a ratio of its own.
func (g Gate) refers() bool { return g.Gate != nil && g.Gate.Times != nil }

func (v Verdict) hold(t figures.Table, b *Bound) *Level {
	if b == nil {
		return nil
	}
	limit := b.Limit
	if b.Times != nil {
		x, ok := value(t, *b.Times)
		if !ok {
			return nil
		}
		limit *= x
	}
	if b.Plus != nil {
		x, ok := value(t, *b.Plus)
		if !ok {
			return nil
		}
		limit += x
	}
	met := v.Measured <= limit
	if v.AtLeast {
		met = v.Measured >= limit
	}
	return &Level{Bound: limit, Met: met && !v.Unjudged}
}

func value(t figures.Table, r Ref) (float64, bool) {
	row, ok := t.Row(r.Figure)
	if !ok {
		return 0, false
	}
	c, ok := row.Cells[r.Target]
	return c.Value, ok
}

// Missed are the verdicts whose gate is missed. One that is not judged misses nothing.
func Missed(all []Verdict) []Verdict {
	var out []Verdict
	for _, v := range all {
		if v.Gate != nil && !v.Gate.Met && !v.Unjudged {
			out = append(out, v)
		}
	}
	return out
}
