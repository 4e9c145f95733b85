// Package trees is a small classifier: gradient-boosted regression trees on logistic loss,
// with the features cut into bins of equal numbers of samples. The same samples give the
// same trees on every run.
package trees

import (
	"errors"
	"math"
	"slices"
)

// Options say how trees are grown.
type Options struct {
	// Rounds is the number of trees, Depth their depth, and Rate how much of each counts.
	Rounds, Depth int
	Rate          float64
	// Bins is into how many parts a feature is cut, at most 256. Leaf is how many samples a
	// leaf has at least.
	Bins, Leaf int
}

// Usual are the options of the measurements.
func Usual() Options { return Options{Rounds: 120, Depth: 4, Rate: .1, Bins: 64, Leaf: 20} }

// Forest scores samples. It is safe for concurrent use.
type Forest struct {
	edges [][]float64
	trees []tree
	base  float64
	rate  float64
	// Gain is how much of the loss the splits on each feature took away.
	Gain []float64
}

// ErrSamples is the error for samples of which no trees can be grown.
var ErrSamples = errors.New("samples of two kinds with as many numbers each are needed")

// Grow grows trees that tell the samples with label true from the others.
func Grow(samples [][]float64, labels []bool, o Options) (*Forest, error) {
	if len(samples) == 0 || len(samples) != len(labels) || o.Bins < 2 || o.Bins > 256 {
		return nil, ErrSamples
	}
	positive := 0
	for i, s := range samples {
		if len(s) != len(samples[0]) {
			return nil, ErrSamples
		}
		if labels[i] {
			positive++
		}
	}
	if positive == 0 || positive == len(samples) {
		return nil, ErrSamples
	}
	f := &Forest{edges: edges(samples, o.Bins), rate: o.Rate, Gain: make([]float64, len(samples[0]))}
	f.base = math.Log(float64(positive) / float64(len(samples)-positive))
	g := grower{
		Depth: o.Depth, Leaf: o.Leaf, edges: f.edges, gain: f.Gain, rows: f.bin(samples),
		slope: make([]float64, len(samples)), curve: make([]float64, len(samples)),
	}
	score := slices.Repeat([]float64{f.base}, len(samples))
	for range o.Rounds {
		for i, s := range score {
			p := 1 / (1 + math.Exp(-s))
			y := 0.0
			if labels[i] {
				y = 1
			}
			g.slope[i], g.curve[i] = y-p, p*(1-p)
		}
		t := g.grow()
		f.trees = append(f.trees, t)
		for i := range score {
			score[i] += o.Rate * t.value(g.rows[i])
		}
	}
	return f, nil
}

// Score returns a number that is the larger the likelier a sample has label true.
func (f *Forest) Score(sample []float64) float64 {
	row := f.bin([][]float64{sample})[0]
	score := f.base
	for _, t := range f.trees {
		score += f.rate * t.value(row)
	}
	return score
}

// edges returns the upper edges of the bins of each feature: its distinct values where they
// are few, and quantiles otherwise.
func edges(samples [][]float64, bins int) [][]float64 {
	all := make([][]float64, len(samples[0]))
	for f := range all {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = s[f]
		}
		slices.Sort(values)
		distinct := slices.Compact(slices.Clone(values))
		if len(distinct) > bins {
			distinct = distinct[:0]
			for b := 1; b <= bins; b++ {
				distinct = append(distinct, values[b*len(values)/bins-1])
			}
			distinct = slices.Compact(distinct)
		}
		all[f] = distinct
	}
	return all
}

// bin returns the bins of samples.
func (f *Forest) bin(samples [][]float64) [][]uint8 {
	rows := make([][]uint8, len(samples))
	for i, s := range samples {
		rows[i] = make([]uint8, len(s))
		for j, x := range s {
			at, _ := slices.BinarySearch(f.edges[j], x)
			rows[i][j] = uint8(min(at, len(f.edges[j])-1)) // at most 256 edges
		}
	}
	return rows
}
