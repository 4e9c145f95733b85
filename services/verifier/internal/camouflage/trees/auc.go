package trees

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// AUC returns the chance that a sample with label true has a higher score than one without;
// equal scores count half. It is NaN where a kind is missing.
func AUC(scores []float64, labels []bool) float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	var ranks, positive float64
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && scores[order[to]] == scores[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			if labels[i] {
				positive++
				ranks += float64(from+to+1) / 2
			}
		}
		from = to
	}
	negative := float64(len(scores)) - positive
	return (ranks - positive*(positive+1)/2) / (positive * negative)
}

// Error returns the standard error of an AUC of so many samples of each kind, as Hanley and
// McNeil estimate it (Radiology 143, 1982).
func Error(auc float64, positive, negative int) float64 {
	one, other := auc/(2-auc), 2*auc*auc/(1+auc)
	p, n := float64(positive), float64(negative)
	return math.Sqrt((auc*(1-auc) + (p-1)*(one-auc*auc) + (n-1)*(other-auc*auc)) / (p * n))
}

// Folds is into how many parts Cross cuts the samples.
const Folds = 5

// Crossed is what Cross found.
type Crossed struct {
	// AUC is that of the scores of all samples, each by trees that did not see it.
	AUC, Error float64
	// Gain is each feature's part of what the splits of all trees took of the loss.
	Gain []float64
}

// Cross grows trees on four fifths of the samples and scores the last fifth, five times. The
// samples are shuffled by a fixed seed.
func Cross(samples [][]float64, labels []bool, o Options) (Crossed, error) {
	if len(samples) < Folds || len(samples) != len(labels) {
		return Crossed{}, ErrSamples
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(samples)) //nolint:gosec // the same folds on every run
	scores := make([]float64, len(samples))
	gain := make([]float64, len(samples[0]))
	for fold := range Folds {
		var rows [][]float64
		var kinds []bool
		for place, i := range order {
			if place%Folds != fold {
				rows, kinds = append(rows, samples[i]), append(kinds, labels[i])
			}
		}
		f, err := Grow(rows, kinds, o)
		if err != nil {
			return Crossed{}, err
		}
		for place, i := range order {
			if place%Folds == fold {
				scores[i] = f.Score(samples[i])
			}
		}
		for j, x := range f.Gain {
			gain[j] += x
		}
	}
	total, positive := 0.0, 0
	for _, x := range gain {
		total += x
	}
	for j := range gain {
		gain[j] /= max(total, 1e-12)
	}
	for _, l := range labels {
		if l {
			positive++
		}
	}
	auc := AUC(scores, labels)
	return Crossed{auc, Error(auc, positive, len(labels)-positive), gain}, nil
}
