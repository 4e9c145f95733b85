package lab

import (
	"fmt"
	"math"
	"strconv"
)

// Gate is one measurement beside what the design says of it.
type Gate struct {
	// Name is what was measured.
	Name string `json:"name"`
	// Designed, Measured and Tolerance are texts, because figures have many units.
	Designed  string `json:"designed"`
	Measured  string `json:"measured"`
	Tolerance string `json:"tolerance"`
	// Value is what was measured, where it is one number.
	Value float64 `json:"value"`
	// Met reports whether what was measured is within the tolerance.
	Met bool `json:"met"`
	// Known is the reason why the gate is known to be missed so far, empty for others.
	Known string `json:"known,omitempty"`
}

// Verdict says how the gate ended.
func (g Gate) Verdict() string {
	switch {
	case g.Met:
		return "met"
	case g.Known != "":
		return "missed (known)"
	default:
		return "MISSED"
	}
}

// Failed reports whether the gate is missed without a known reason.
func (g Gate) Failed() bool { return !g.Met && g.Known == "" }

// within is a gate of a figure that may lie so far from the design on both sides.
func within(name string, designed, measured, tolerance float64) Gate {
	return Gate{
		Name: name, Designed: number(designed), Measured: number(measured), Tolerance: "± " + number(tolerance),
		Value: measured, Met: math.Abs(measured-designed) <= tolerance+1e-9,
	}
}

// notAbove is a gate of a figure that must not be above a limit. slack is added to it where
// chance moves the figure.
func notAbove(name string, designed, measured, slack float64) Gate {
	return Gate{
		Name: name, Designed: "≤ " + number(designed), Measured: number(measured), Tolerance: slackText("+", slack),
		Value: measured, Met: measured <= designed+slack+1e-12,
	}
}

// notBelow is a gate of a figure that must not be below a limit.
func notBelow(name string, designed, measured, slack float64) Gate {
	return Gate{
		Name: name, Designed: "≥ " + number(designed), Measured: number(measured), Tolerance: slackText("−", slack),
		Value: measured, Met: measured >= designed-slack-1e-12,
	}
}

func slackText(sign string, slack float64) string {
	if slack == 0 {
		return "none"
	}
	return sign + " " + number(slack)
}

// number writes a figure with three digits, small ones with an exponent.
func number(x float64) string {
	switch size := math.Abs(x); {
	case x == math.Trunc(x) && size < 1e6:
		return thousands(int(x))
	case size < .001 || size >= 1e6:
		return fmt.Sprintf("%.2g", x)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

// thousands writes a whole number with its thousands apart.
func thousands(n int) string {
	text := strconv.Itoa(n)
	if n < 1_000 {
		return text
	}
	return text[:len(text)-3] + "," + text[len(text)-3:] // numbers are below a million
}
