package main

import (
	"math"

	"svc.internal/pkg/tinylm/internal/weights"
)

// adam is the Adam optimizer with bias correction and a bound on the
// gradient's norm.
type adam struct {
	mean, square *weights.Set
	step         int
}

const (
	meanDecay   = 0.9
	squareDecay = 0.99
	maxNorm     = 1.0
)

func newAdam(shape *weights.Set) *adam {
	return &adam{mean: weights.New(shape.Embed, shape.Hidden), square: weights.New(shape.Embed, shape.Hidden)}
}

// update moves params against grads.
func (a *adam) update(params, grads *weights.Set, rate float64) {
	a.step++
	shrink := float32(1)
	if norm := norm(grads); norm > maxNorm {
		shrink = float32(maxNorm / norm)
	}
	t := float64(a.step)
	rate *= math.Sqrt(1-math.Pow(squareDecay, t)) / (1 - math.Pow(meanDecay, t))
	means, squares, values := a.mean.Tensors(), a.square.Tensors(), params.Tensors()
	for k, grad := range grads.Tensors() {
		mean, square, value := means[k], squares[k], values[k]
		for i, g := range grad {
			g *= shrink
			mean[i] += (1 - meanDecay) * (g - mean[i])
			square[i] += (1 - squareDecay) * (g*g - square[i])
			value[i] -= float32(rate) * mean[i] / (float32(math.Sqrt(float64(square[i]))) + 1e-8)
		}
	}
}

func norm(s *weights.Set) float64 {
	var sum float64
	for _, tensor := range s.Tensors() {
		for _, v := range tensor {
			sum += float64(v) * float64(v)
		}
	}
	return math.Sqrt(sum)
}

// rateAt is the learning rate of a step: a short linear rise, then half a
// cosine down to a hundredth of the peak.
func rateAt(step, steps int, peak float64) float64 {
	const rise = 50
	if step < rise {
		return peak * float64(step+1) / rise
	}
	part := float64(step-rise) / float64(max(steps-rise, 1))
	return peak * (0.01 + 0.99*(1+math.Cos(math.Pi*part))/2)
}
