package main

import (
	"math"
	"math/rand/v2"

	"svc.internal/pkg/tinylm/internal/kernel"
	"svc.internal/pkg/tinylm/internal/weights"
)

// network runs a batch of rows through time, keeps the values that the backward
// pass needs, and holds the gradients. Arrays over time are laid out
// [step][row][...]; "cells" counts step x row.
type network struct {
	params, grads *weights.Set
	rows, steps   int

	start []float32 // rows x H: state before the first step, carried between batches

	embedded  []float32 // cells x E
	fromInput []float32 // cells x 3H: p
	fromState []float32 // cells x 3H: a, with the candidate bias added
	before    []float32 // cells x H: h entering each cell
	gates     []float32 // cells x 3H: z, r, c
	after     []float32 // cells x H: h leaving each cell
	probs     []float32 // cells x Vocabulary: softmax, then its gradient

	dInput, dState []float32 // cells x 3H
	dAfter         []float32 // cells x H
	dCarry         []float32 // rows x H: gradient flowing to the step before
	scratch        []float32 // transposes
}

func newNetwork(params *weights.Set, rows, steps int) *network {
	h, cells := params.Hidden, rows*steps
	floats := func(n int) []float32 { return make([]float32, n) }
	return &network{
		params: params, grads: weights.New(params.Embed, h), rows: rows, steps: steps,
		start: floats(rows * h), embedded: floats(cells * params.Embed),
		fromInput: floats(cells * 3 * h), fromState: floats(cells * 3 * h),
		before: floats(cells * h), gates: floats(cells * 3 * h), after: floats(cells * h),
		probs:  floats(cells * weights.Vocabulary),
		dInput: floats(cells * 3 * h), dState: floats(cells * 3 * h),
		dAfter: floats(cells * h), dCarry: floats(rows * h),
		scratch: floats(max(cells, 3*h, weights.Vocabulary) * max(h, params.Embed)),
	}
}

// initialize draws small uniform parameters, whose range depends on the width of
// the layer's input. Biases start at zero, except the update gate's, which starts
// at one, so that the network begins by keeping the state.
func initialize(s *weights.Set, rng *rand.Rand) {
	fill := func(w []float32, scale float64) {
		for i := range w {
			w[i] = float32((rng.Float64()*2 - 1) * scale)
		}
	}
	fill(s.Embedding, 0.5)
	fill(s.Input, 1/math.Sqrt(float64(s.Embed)))
	fill(s.Recurrent, 1/math.Sqrt(float64(s.Hidden)))
	fill(s.Output, 1/math.Sqrt(float64(s.Hidden)))
	for i := range s.Hidden {
		s.InputBias[i] = 1
	}
}

// loss runs the batch forward and returns the weighted mean of -ln p(target),
// in nats per byte. It leaves the softmax in n.probs.
func (n *network) loss(b *batch) float64 {
	n.forward(b)
	var sum, total float64
	for cell, weight := range b.weight {
		p := n.probs[cell*weights.Vocabulary:][:weights.Vocabulary]
		softmax(p)
		if weight == 0 {
			continue
		}
		sum -= float64(weight) * math.Log(math.Max(float64(p[b.target[cell]]), 1e-30))
		total += float64(weight)
	}
	return sum / total
}

func (n *network) forward(b *batch) {
	p, h, e := n.params, n.params.Hidden, n.params.Embed
	for cell, token := range b.input {
		copy(n.embedded[cell*e:][:e], p.Embedding[int(token)*e:])
		copy(n.fromInput[cell*3*h:][:3*h], p.InputBias)
		copy(n.probs[cell*weights.Vocabulary:][:weights.Vocabulary], p.OutputBias)
	}
	kernel.Product(n.fromInput, n.embedded, p.Input, e, 3*h)
	state := n.start
	for t := range n.steps {
		n.step(b, t, state)
		state = n.after[t*n.rows*h:][:n.rows*h]
	}
	copy(n.start, state)
	kernel.Product(n.probs, n.after, p.Output, h, weights.Vocabulary)
}

// step computes one time step of all rows from the state before it.
func (n *network) step(b *batch, t int, state []float32) {
	h, first := n.params.Hidden, t*n.rows
	before := n.before[first*h:][:n.rows*h]
	copy(before, state)
	for r := range n.rows {
		if b.fresh[first+r] {
			clear(before[r*h:][:h])
		}
		a := n.fromState[(first+r)*3*h:][:3*h]
		clear(a[:2*h])
		copy(a[2*h:], n.params.CandidateBias)
	}
	kernel.Product(n.fromState[first*3*h:][:n.rows*3*h], before, n.params.Recurrent, h, 3*h)
	for cell := first; cell < first+n.rows; cell++ {
		in, a, g := n.fromInput[cell*3*h:][:3*h], n.fromState[cell*3*h:][:3*h], n.gates[cell*3*h:][:3*h]
		prev, next := n.before[cell*h:][:h], n.after[cell*h:][:h]
		for i := range h {
			z := kernel.Sigmoid(in[i] + a[i])
			r := kernel.Sigmoid(in[h+i] + a[h+i])
			c := kernel.Tanh(in[2*h+i] + float32(r*a[2*h+i]))
			g[i], g[h+i], g[2*h+i] = z, r, c
			next[i] = c + float32(z*(prev[i]-c))
		}
	}
}

func softmax(x []float32) {
	top := x[0]
	for _, v := range x {
		top = max(top, v)
	}
	var sum float64
	for i, v := range x {
		x[i] = kernel.Exp(v - top)
		sum += float64(x[i])
	}
	inverse := float32(1 / sum)
	for i := range x {
		x[i] *= inverse
	}
}
