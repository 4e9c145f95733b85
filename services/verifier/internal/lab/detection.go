package lab

import (
	"context"
	"fmt"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/lab/plot"
)

// detection measures how soon cheats are noticed and slashed, by the share of requests that
// is served otherwise and shows in every such answer.
func detection(ctx context.Context, o Options, report *Report) error {
	if err := powersOfDesign(ctx, o, report); err != nil {
		return err
	}
	if err := rerouted(ctx, o, report); err != nil {
		return err
	}
	if err := slashed(ctx, o, report); err != nil {
		return err
	}
	if err := aborting(ctx, o, report); err != nil {
		return err
	}
	return detectionChart(ctx, o, report)
}

// powersOfDesign holds the observations to a notice against the design, at the powers of
// the design. The design rounds powers to two digits.
func powersOfDesign(ctx context.Context, o Options, report *Report) error {
	for _, c := range []struct {
		family evidence.Family
		power  float64
		want   float64
	}{
		{evidence.Greedy, 1, 5}, {evidence.Greedy, .96, 6}, {evidence.Greedy, .85, 9}, {evidence.Greedy, .46, 23},
		{evidence.Greedy, .4, 29}, {evidence.Logprobs, 1, 5}, {evidence.Logprobs, .94, 6}, {evidence.Recall, 1, 5},
		{evidence.Usage, 1, 5},
	} {
		late, err := until(ctx, o, c.family, c.power)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s of power %v: observations to notice, p95", c.family.Letter(), c.power)
		report.add(within(name, c.want, float64(late), max(1, c.want/10)))
	}
	return nil
}

// rerouted measures a provider that serves a share of all requests otherwise.
func rerouted(ctx context.Context, o Options, report *Report) error {
	for _, c := range []struct{ share, probes, median, late float64 }{
		{.2, 78, 4, 9}, {.1, 214, 11, 23}, {.05, 706, 37, 75},
	} {
		late, err := until(ctx, o, evidence.Greedy, c.share)
		if err != nil {
			return err
		}
		days, err := daysToNotice(ctx, o, years.Of(evidence.Greedy, c.share).Probe)
		if err != nil {
			return err
		}
		slack := .1
		if !o.Full {
			slack = .2
		}
		name := fmt.Sprintf("%v rerouted: ", c.share)
		report.add(within(name+"observations to notice, p95", c.probes, float64(late), c.probes*slack))
		report.add(notAbove(name+"days to notice, median", c.median, days.median, max(.5, c.median*slack)))
		report.add(notAbove(name+"days to notice, p95", c.late, days.late, max(1, c.late*slack)))
	}
	return nil
}

// slashed holds the days to the first penalty against the design: a provider must not have
// more time than that.
func slashed(ctx context.Context, o Options, report *Report) error {
	for _, c := range []struct{ share, median, late float64 }{{.8, 2, 2.7}, {.2, 8, 13}, {.1, 46, 152}} {
		got, err := untilSlash(ctx, o, c.share)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%v of probes exceed: days to the first slash, ", c.share)
		report.add(notAbove(name+"median", c.median, got.median, max(.3, c.median*.3)))
		report.add(notAbove(name+"p95", c.late, got.late, max(.5, c.late*.3)))
	}
	return nil
}

// aborting measures a provider that answers probes and fails all requests.
func aborting(ctx context.Context, o Options, report *Report) error {
	numbers, err := spread(ctx, o, 4_000, func(_ context.Context, i int) (int, error) {
		n, _ := years.PairsUntil(years.NewSource(uint64(i), 83), .03, 1, noticeFrom, 1_000)
		return n, nil
	})
	if err != nil {
		return err
	}
	report.add(within("always aborting: pairs to 10³, p95", 28, float64(years.Quantile(numbers, .95)), 1))
	return nil
}

func detectionChart(ctx context.Context, o Options, report *Report) error {
	shares := []float64{.05, .07, .1, .15, .2, .3, .45, .65, 1}
	var median, late, penalty plot.Series
	median.Name, late.Name, penalty.Name = "notice, median", "notice, p95", "first penalty, median"
	late.Dashed = true
	for _, share := range shares {
		notice, err := daysToNotice(ctx, o, years.Of(evidence.Greedy, share).Probe)
		if err != nil {
			return err
		}
		median.Points = append(median.Points, plot.Point{X: share, Y: notice.median})
		late.Points = append(late.Points, plot.Point{X: share, Y: notice.late})
		if share < .1 {
			continue // hardly ever within a year
		}
		s, err := untilSlash(ctx, o, share)
		if err != nil {
			return err
		}
		penalty.Points = append(penalty.Points, plot.Point{X: share, Y: s.median})
	}
	report.chart("detection.svg", plot.Chart{
		Title: "Detection time",
		X: plot.Axis{
			Label: "share of requests served otherwise", Min: .05, Max: 1, Log: true, Ticks: []float64{.05, .1, .2, .5, 1},
		},
		Y:      plot.Axis{Label: "days", Min: .1, Max: 365, Log: true, Ticks: []float64{.1, 1, 10, 100, 365}},
		Series: []plot.Series{median, late, penalty},
	})
	return nil
}
