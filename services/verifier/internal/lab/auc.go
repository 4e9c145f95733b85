package lab

import (
	"encoding/json"
	"errors"
	"fmt"

	"svc.internal/services/verifier/internal/lab/plot"
)

// AUC is what one classifier reached that was to tell probes from consumers' requests: the
// area under its curve on the probes of the verifier, and on those of a naive prober that
// was planted beside it, which it must find.
type AUC struct {
	Classifier string  `json:"classifier"`
	Probes     float64 `json:"probes"`
	Naive      float64 `json:"naive"`
	// Samples is the number of samples of the smaller kind.
	Samples int `json:"samples"`
}

// The gates of the design.
const (
	maxAUC     = .55
	minNaive   = .9
	minSamples = 2_000
	maxAUCs    = 16
)

// ErrAUC is the error for a file that holds no figures of classifiers.
var ErrAUC = errors.New("not the figures of classifiers")

// AddAUC adds the gates and the chart of classifiers. text is a JSON list of AUC.
func (r *Report) AddAUC(text []byte) error {
	var all []AUC
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%w: %w", ErrAUC, err)
	}
	if len(all) == 0 || len(all) > maxAUCs {
		return fmt.Errorf("%w: %d of them", ErrAUC, len(all))
	}
	var probes, naive plot.Series
	probes.Name, probes.Dots, naive.Name, naive.Dots = "probes", true, "naive prober", true
	for i, a := range all {
		if !(a.Probes >= 0 && a.Probes <= 1) || !(a.Naive >= 0 && a.Naive <= 1) {
			return fmt.Errorf("%w: %+v", ErrAUC, a)
		}
		r.add(notAbove("AUC of probes, "+a.Classifier, maxAUC, a.Probes, 0))
		r.add(notBelow("AUC of a naive prober, "+a.Classifier, minNaive, a.Naive, 0))
		r.add(notBelow("samples, "+a.Classifier, minSamples, float64(a.Samples), 0))
		x := float64(i + 1)
		probes.Points = append(probes.Points, plot.Point{X: x, Y: a.Probes})
		naive.Points = append(naive.Points, plot.Point{X: x, Y: a.Naive})
	}
	last := 1 + 1.8*float64(len(all)) // the legend stands at the right
	limit := plot.Series{Name: "limit of the design", Points: []plot.Point{{X: 0, Y: maxAUC}, {X: last, Y: maxAUC}}}
	r.chart("auc.svg", plot.Chart{
		Title:  "Telling probes from requests",
		X:      plot.Axis{Label: "classifier", Max: last, Ticks: numbers(len(all))},
		Y:      plot.Axis{Label: "AUC", Min: .4, Max: 1.1, Ticks: []float64{.4, .5, .6, .7, .8, .9, 1}},
		Series: []plot.Series{probes, naive, limit},
	})
	r.excuse()
	return nil
}

// numbers are 1 to n.
func numbers(n int) []float64 {
	var all []float64
	for i := range n {
		all = append(all, float64(i+1))
	}
	return all
}
