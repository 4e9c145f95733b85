package lab

import (
	"context"
	"fmt"
	"math"
	"slices"

	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/lab/plot"
	"svc.internal/services/verifier/internal/window"
)

// The windows that are measured lie evenly, in the logarithm, in this span.
const (
	smallestWindow = 1_024
	largestWindow  = 131_072
)

// measured is one measurement: how far it was off, and its prompts.
type measured struct {
	off     float64
	prompts int
}

// windows measures how near measured windows are.
func windows(ctx context.Context, o Options, report *Report) error {
	var series []plot.Series
	for _, c := range []struct{ recall, within, median float64 }{{1, 1, 3}, {.95, 1, 3}, {.9, 1, 3}, {.6, .999, 4}} {
		seen, err := spread(ctx, o, o.scale(3_000, 200), func(_ context.Context, i int) (measured, error) {
			s := years.NewSource(uint64(i), uint64(1_000*c.recall))
			tokens := int(smallestWindow * math.Pow(largestWindow/smallestWindow, s.Float()))
			return measure(s, tokens, c.recall)
		})
		if err != nil {
			return err
		}
		prompts, off, good := make([]int, len(seen)), make([]float64, len(seen)), 0
		for i, m := range seen {
			prompts[i], off[i] = m.prompts, m.off
			if m.off <= .03 && m.prompts <= 6 {
				good++
			}
		}
		n := float64(len(seen))
		name := fmt.Sprintf("window at recall %v: ", c.recall)
		slack := .001
		if !o.Full {
			slack = max(slack, 3*math.Sqrt(c.within*(1-c.within)/n))
		}
		report.add(notBelow(name+"within 3% in 6 prompts", c.within, float64(good)/n, slack))
		report.add(notAbove(name+"prompts, median", c.median, float64(years.Quantile(prompts, .5)), 0))
		series = append(series, cumulated(fmt.Sprintf("recall %v", c.recall), off))
	}
	report.chart("windows.svg", plot.Chart{
		Title:  "Error of measured windows",
		X:      plot.Axis{Label: "error, %", Max: 4, Ticks: []float64{0, 1, 2, 3, 4}},
		Y:      plot.Axis{Label: "share of windows", Max: 1, Ticks: []float64{0, .2, .4, .6, .8, 1}},
		Series: series,
	})
	return nil
}

// cumulated is the share of errors up to each size.
func cumulated(name string, off []float64) plot.Series {
	slices.Sort(off)
	s := plot.Series{Name: name}
	for percent := 0.0; percent <= 4; percent += .1 {
		n, _ := slices.BinarySearch(off, percent/100+1e-12)
		s.Points = append(s.Points, plot.Point{X: percent, Y: float64(n) / float64(len(off))})
	}
	return s
}

// measure measures a provider that loses what lies more than so many tokens from a prompt's
// end, and returns what it reads with the chance recall.
func measure(s years.Source, tokens int, recall float64) (measured, error) {
	m, err := window.New(smallestWindow, largestWindow)
	if err != nil {
		return measured{}, err
	}
	for m.Phase() == window.Measuring {
		needles := make([]window.Needle, 0, window.Needles)
		for _, at := range m.Plan().FromEnd {
			returned := s.Below(recall) && at <= tokens
			needles = append(needles, window.Needle{FromEnd: at, Recall: recall, Returned: returned})
		}
		if err := m.Answered(needles); err != nil {
			return measured{}, err
		}
	}
	return measured{math.Abs(float64(m.Window())/float64(tokens) - 1), m.Prompts()}, nil
}
