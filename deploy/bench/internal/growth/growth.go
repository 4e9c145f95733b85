// Package growth says how what a product costs changes while one thing grows: each axis has steps, each step has
// figures, and an axis is flat when the last step costs about what the first one costs.
package growth

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bound is the largest ratio of a judged figure at the last step to that at the first step in a flat axis.
const Bound = 1.25

// The axes by name.
const (
	Providers = "providers"
	Accounts  = "accounts"
	Lines     = "lines"
	Streams   = "streams"
	Length    = "length"
)

// sizes are the steps of each axis, and small is how many of the first of them a smoke run takes.
var sizes = map[string][]int{
	Providers: {10, 100, 1_000, 10_000},
	Accounts:  {1_000, 10_000, 100_000, 1_000_000},
	Lines:     {1_000, 10_000, 100_000, 1_000_000, 10_000_000},
	Streams:   {1, 10, 100, 1_000, 2_000},
	Length:    {100, 1_000, 10_000, 100_000},
}

const small = 2

// Sizes returns the steps of an axis, of a smoke run if brief is set.
func Sizes(axis string, brief bool) ([]int, error) {
	all, ok := sizes[axis]
	if !ok {
		return nil, fmt.Errorf("there is no axis %q: the axes are %s, %s, %s, %s and %s", axis, Providers, Accounts, Lines,
			Streams, Length)
	}
	if brief {
		all = all[:small]
	}
	return slices.Clone(all), nil
}

// Axis is one thing that grew, and what was measured at each step.
type Axis struct {
	Name string `json:"axis"`
	// Title says what grew and under which load.
	Title string `json:"title"`
	// Figures are what each step's values are, the judged ones first. Judged is how many these are.
	Figures []Figure `json:"figures"`
	Judged  int      `json:"judged"`
	Steps   []Step   `json:"steps"`
	// Machine says when and on what it was measured.
	Machine string `json:"machine"`
}

// Figure is one kind of value.
type Figure struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
}

// Step is what was measured at one size.
type Step struct {
	Size int `json:"size"`
	// Values are in the order of the axis's figures; nil where the step was not measured.
	Values []float64 `json:"values"`
	// Note says why the step was not measured, or why its values are in doubt: the load was not reached, or requests
	// failed.
	Note string `json:"note,omitempty"`
}

// Ratio returns the ratio of figure f at a step to that at the axis's first step. It returns false where either was
// not measured, or where the first is not above zero.
func (a Axis) Ratio(step, f int) (float64, bool) {
	if f >= len(a.Steps[0].Values) || f >= len(a.Steps[step].Values) || a.Steps[0].Values[f] <= 0 {
		return 0, false
	}
	return a.Steps[step].Values[f] / a.Steps[0].Values[f], true
}

// Verdict is what an axis shows.
type Verdict string

// The verdicts.
const (
	Flat        Verdict = "flat"
	NotFlat     Verdict = "not flat"
	NotMeasured Verdict = "not measured"
)

// Judge returns the verdict of an axis and the sentence that goes with it.
func (a Axis) Judge() (Verdict, string) {
	if len(a.Steps) < 2 {
		return NotMeasured, "an axis has two steps at least"
	}
	last, verdict := len(a.Steps)-1, Flat
	for _, s := range []Step{a.Steps[0], a.Steps[last]} {
		if s.Note != "" {
			return NotMeasured, fmt.Sprintf("the step %s is in doubt: %s", grouped(s.Size), s.Note)
		}
	}
	var parts []string
	for f := range a.Judged {
		ratio, ok := a.Ratio(last, f)
		if !ok {
			return NotMeasured, a.Figures[f].Name + " of the first or the last step is missing"
		}
		if ratio > Bound {
			verdict = NotFlat
		}
		parts = append(parts, fmt.Sprintf("%s at %s is %.2f × that at %s", a.Figures[f].Name,
			grouped(a.Steps[last].Size), ratio, grouped(a.Steps[0].Size)))
	}
	return verdict, strings.Join(parts, ", ")
}

// Beyond returns what each of n things cost beyond an idle product, in µs of CPU: the CPU that all processes used in a
// span less what they use in as long a span while idle. idle is in seconds of CPU a second.
func Beyond(cpuSeconds, idle, spanSeconds float64, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return (cpuSeconds - idle*spanSeconds) * 1e6 / float64(n)
}

// grouped writes a number with a comma between each three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
