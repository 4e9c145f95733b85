// Package slope fits a line through what was read of a program over hours, to tell growth from
// noise. Readings that follow each other are alike, because what moves a program lasts for many
// of them. So the line goes through the means of blocks of readings, which hardly depend on each
// other, and its interval is that of Student's t for them.
package slope

import (
	"cmp"
	"math"
	"slices"
)

// Blocks is how many blocks the readings are divided into, all as long as each other.
const Blocks = 12

// Reading is a value at a time, in hours since the first reading.
type Reading struct{ Hours, Value float64 }

// Line is what was fitted. Low and High bound the growth in an hour with 95% confidence.
type Line struct {
	// First and Last are the means of the first and the last block.
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
	PerHour float64 `json:"per_hour"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// Grows reports whether the growth in an hour is above zero with 95% confidence, and above least.
func (l Line) Grows(least float64) bool { return l.Low > 0 && l.PerHour > least }

// Fit fits the line. It returns false for readings that leave a block empty.
func Fit(readings []Reading) (Line, bool) {
	blocks, ok := means(readings)
	if !ok {
		return Line{}, false
	}
	n := float64(len(blocks))
	var x, y float64
	for _, b := range blocks {
		x, y = x+b.Hours/n, y+b.Value/n
	}
	var xx, xy float64
	for _, b := range blocks {
		xx += (b.Hours - x) * (b.Hours - x)
		xy += (b.Hours - x) * (b.Value - y)
	}
	line := Line{First: blocks[0].Value, Last: blocks[len(blocks)-1].Value, PerHour: xy / xx}
	var rest float64
	for _, b := range blocks {
		off := b.Value - y - line.PerHour*(b.Hours-x)
		rest += off * off
	}
	width := student * math.Sqrt(rest/(n-2)/xx)
	line.Low, line.High = line.PerHour-width, line.PerHour+width
	return line, true
}

// student is the 97.5% quantile of Student's t with Blocks−2 degrees of freedom.
const student = 2.2281

// means divides the readings by time into blocks, and returns the mean of each.
func means(readings []Reading) ([]Reading, bool) {
	if len(readings) < Blocks {
		return nil, false
	}
	hours := func(r Reading) float64 { return r.Hours }
	first := hours(slices.MinFunc(readings, earlier))
	span := hours(slices.MaxFunc(readings, earlier)) - first
	if span <= 0 {
		return nil, false
	}
	sums, counts := make([]Reading, Blocks), make([]float64, Blocks)
	for _, r := range readings {
		i := min(int((r.Hours-first)/span*Blocks), Blocks-1)
		sums[i].Hours += r.Hours
		sums[i].Value += r.Value
		counts[i]++
	}
	for i, n := range counts {
		if n == 0 {
			return nil, false
		}
		sums[i].Hours /= n
		sums[i].Value /= n
	}
	return sums, true
}

func earlier(a, b Reading) int { return cmp.Compare(a.Hours, b.Hours) }
