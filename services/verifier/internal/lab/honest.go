package lab

import (
	"context"
	"math"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/lab/plot"
)

// The rates of exceedance that are simulated: an ordinary honest provider, the border of
// what is calibrated, and three times as much.
const (
	ordinaryRate = .0006
	borderRate   = .01
	tripleRate   = 3 * borderRate
)

// honest measures how rarely honest providers are accused.
func honest(ctx context.Context, o Options, report *Report) error {
	if err := honestCareers(ctx, o, report); err != nil {
		return err
	}
	bound := plot.Series{Name: "bound 1/c"}
	for c := 1.0; c <= 1e6; c *= 10 {
		bound.Points = append(bound.Points, plot.Point{X: c, Y: 1 / c})
	}
	counted, err := crossings(ctx, o, report)
	if err != nil {
		return err
	}
	estimated, err := tails(ctx, o, report)
	if err != nil {
		return err
	}
	decades := []float64{1e-6, 1e-5, 1e-4, 1e-3, .01, .1, 1}
	report.chart("bound.svg", plot.Chart{
		Title: "False alarms: bound and simulation",
		X:     plot.Axis{Label: "threshold c", Min: 1, Max: 1e6, Log: true, Ticks: []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}},
		Y:     plot.Axis{Label: "crossings a year", Min: 1e-7, Max: 1, Log: true, Ticks: append([]float64{1e-7}, decades...)},
		Series: []plot.Series{
			bound, {Name: "counted, M set to 0", Points: counted, Dots: true},
			{Name: "importance sampling", Points: estimated, Dots: true},
		},
	})
	return nil
}

// tally is what became of simulated providers.
type tally struct{ notices, confirmations, slashes, number int }

// careers simulates providers for a year each.
func careers(ctx context.Context, o Options, p years.Provider, number int, stream uint64) (tally, error) {
	const chunk = 50
	parts, err := spread(ctx, o, (number+chunk-1)/chunk, func(ctx context.Context, part int) (tally, error) {
		var t tally
		for i := part * chunk; i < min(number, (part+1)*chunk) && ctx.Err() == nil; i++ {
			c, err := p.Career(years.NewSource(uint64(i), stream), daysPerYear)
			if err != nil {
				return tally{}, err
			}
			t.number++
			t.notices += c.Notices
			t.confirmations += c.Confirmations
			if c.Slashed {
				t.slashes++
			}
		}
		return t, ctx.Err()
	})
	var sum tally
	for _, t := range parts {
		sum.number, sum.notices = sum.number+t.number, sum.notices+t.notices
		sum.confirmations, sum.slashes = sum.confirmations+t.confirmations, sum.slashes+t.slashes
	}
	return sum, err
}

func honestCareers(ctx context.Context, o Options, report *Report) error {
	ordinary, err := careers(ctx, o, years.Of(evidence.Greedy, ordinaryRate), o.scale(100_000, 1_000), 51)
	if err != nil {
		return err
	}
	report.add(notAbove("notices in "+thousands(ordinary.number)+" honest years", 0, float64(ordinary.notices), 0))
	report.add(notAbove("slashes in "+thousands(ordinary.number)+" honest years", 0, float64(ordinary.slashes), 0))
	triple, err := careers(ctx, o, years.Of(evidence.Greedy, tripleRate), 1_000, 52)
	if err != nil {
		return err
	}
	report.add(notAbove("slashes in 1,000 years at a rate of .03", 0, float64(triple.slashes), 0))
	border, err := careers(ctx, o, years.Of(evidence.Greedy, .05), o.scale(400, 100), 53)
	if err != nil {
		return err
	}
	// An expectation of 1/10⁴ a confirmation: three more have a chance below 1 in 500.
	expected := float64(border.confirmations) / 1e4
	report.add(notAbove("slashes in "+thousands(border.confirmations)+" confirmations at a rate of .05",
		expected, float64(border.slashes), 3))
	return largest(ctx, o, report)
}

// largest measures the largest M of honest years.
func largest(ctx context.Context, o Options, report *Report) error {
	const probes = probesPerDay * daysPerYear
	seen, err := spread(ctx, o, o.scale(100_000, 1_000), func(_ context.Context, i int) (float64, error) {
		y, err := years.Of(evidence.Greedy, ordinaryRate).Year(years.NewSource(uint64(i), 54), 20, probes)
		return y.Largest, err
	})
	if err != nil {
		return err
	}
	top := 0.0
	for _, m := range seen {
		top = max(top, m)
	}
	report.add(notAbove("largest M of "+thousands(len(seen))+" honest years", .2, top, .3))
	return nil
}

// crossings counts how often M crosses thresholds at the border of honesty, with M set to 0
// at each crossing, and holds it against the bound n/(N·c).
func crossings(ctx context.Context, o Options, report *Report) ([]plot.Point, error) {
	var points []plot.Point
	share := evidence.Greedy.Share()
	for _, c := range []struct {
		name     string
		provider years.Provider
		at, unit float64
		years    int
	}{
		{"M of family B", years.Of(evidence.Greedy, borderRate), 1, share, o.scale(2_000, 300)},
		{"M of family B", years.Of(evidence.Greedy, borderRate), 5, share, o.scale(6_000, 600)},
		{"M of family B", years.Of(evidence.Greedy, borderRate), 20, share, o.scale(6_000, 600)},
		{"M of family B", years.Of(evidence.Greedy, borderRate), 100, share, o.scale(6_000, 600)},
		{"M of all families", years.Full(borderRate, years.HonestLaw(evidence.Class4)), 5, 1, o.scale(300, 25)},
	} {
		seen, err := spread(ctx, o, c.years, func(_ context.Context, i int) (int, error) {
			y, err := c.provider.Year(years.NewSource(uint64(i), uint64(600+c.at)), c.at*c.unit, evidence.Horizon)
			return y.Crossings, err
		})
		if err != nil {
			return nil, err
		}
		count := 0
		for _, n := range seen {
			count += n
		}
		rate, slack := float64(count)/float64(c.years), 0.0
		if !o.Full {
			slack = 3 * math.Sqrt(1/c.at/float64(c.years))
		}
		report.add(notAbove(c.name+" crosses "+number(c.at)+", times a year", 1/c.at, rate, slack))
		if c.unit == share && rate > 0 {
			points = append(points, plot.Point{X: c.at, Y: rate})
		}
	}
	return points, nil
}

// tails estimates the chance that M reaches thresholds in a year by importance sampling.
func tails(ctx context.Context, o Options, report *Report) ([]plot.Point, error) {
	var points []plot.Point
	share := evidence.Greedy.Share()
	b := years.Of(evidence.Greedy, borderRate)
	for _, c := range []struct {
		name      string
		provider  years.Provider
		threshold float64
		c         float64
		low, high float64
		designed  string
		paths     int
	}{
		{"P(M of all families ≥ 10⁶ in a year)", years.Full(borderRate, years.HonestLaw(evidence.Class4)), 1e6, 0,
			2e-7, 5e-7, "3.4e-07", o.scale(2_000, 300)},
		{"P(M of family B ≥ 10⁶ in a year)", b, 1e6 * share, 1e6, 2e-7, 5e-7, "3.4e-07", o.scale(20_000, 1_000)},
		{"P(M of family B ≥ 10³ in a year)", b, 1e3 * share, 1e3, 4.6e-4, 5.6e-4, "0.00051", o.scale(20_000, 1_000)},
	} {
		tail, err := estimate(ctx, o, c.provider, c.threshold, c.paths)
		if err != nil {
			return nil, err
		}
		slack := 0.0
		if !o.Full {
			slack = 3 * tail.Error
		}
		report.add(Gate{
			Name: c.name, Designed: c.designed, Measured: number(tail.P) + " ± " + number(tail.Error),
			Tolerance: number(c.low) + " to " + number(c.high), Met: tail.P >= c.low-slack && tail.P <= c.high+slack,
		})
		if c.c > 0 {
			points = append(points, plot.Point{X: c.c, Y: tail.P})
		}
	}
	return points, nil
}

// estimate joins the estimates of many short runs.
func estimate(ctx context.Context, o Options, p years.Provider, threshold float64, paths int) (years.Tail, error) {
	const chunk = 50
	parts, err := spread(ctx, o, paths/chunk, func(_ context.Context, i int) (years.Tail, error) {
		return p.CrossingTail(years.NewSource(71, uint64(i)), threshold, evidence.Horizon, chunk)
	})
	if err != nil {
		return years.Tail{}, err
	}
	var sum years.Tail
	for _, t := range parts {
		sum.P += t.P
		sum.Error += t.Error * t.Error
		sum.Reached += t.Reached
	}
	n := float64(len(parts))
	return years.Tail{P: sum.P / n, Error: math.Sqrt(sum.Error) / n, Reached: sum.Reached / n}, nil
}
