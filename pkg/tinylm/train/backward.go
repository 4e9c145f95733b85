package main

import (
	"svc.internal/pkg/tinylm/internal/kernel"
	"svc.internal/pkg/tinylm/internal/weights"
)

// backward turns the softmax that loss left in n.probs into n.grads: the
// gradient of the loss, cut at the start of the batch.
func (n *network) backward(b *batch) {
	p, g, h, e := n.params, n.grads, n.params.Hidden, n.params.Embed
	for _, tensor := range g.Tensors() {
		clear(tensor)
	}
	n.lossGradient(b)
	cells := n.rows * n.steps
	addColumns(g.OutputBias, n.probs)
	kernel.Product(g.Output, n.transpose(n.after, cells, h), n.probs, cells, weights.Vocabulary)
	clear(n.dAfter)
	kernel.Product(n.dAfter, n.probs, n.transpose(p.Output, h, weights.Vocabulary), weights.Vocabulary, h)

	recurrent := n.transpose(p.Recurrent, h, 3*h)
	clear(n.dCarry)
	for t := n.steps - 1; t >= 0; t-- {
		n.stepBack(b, t, recurrent)
	}
	kernel.Product(g.Recurrent, n.transpose(n.before, cells, h), n.dState, cells, 3*h)
	addColumns(g.InputBias, n.dInput)
	for cell := range cells {
		for i, d := range n.dState[cell*3*h+2*h:][:h] {
			g.CandidateBias[i] += d
		}
	}
	kernel.Product(g.Input, n.transpose(n.embedded, cells, e), n.dInput, cells, 3*h)
	input := n.transpose(p.Input, e, 3*h)
	for cell, token := range b.input {
		kernel.AddRows(g.Embedding[int(token)*e:][:e], n.dInput[cell*3*h:][:3*h], input)
	}
}

// lossGradient replaces each softmax by the gradient with respect to its
// logits: weight·(p − one-hot target), scaled to the weighted mean.
func (n *network) lossGradient(b *batch) {
	var total float64
	for _, w := range b.weight {
		total += float64(w)
	}
	for cell, w := range b.weight {
		p := n.probs[cell*weights.Vocabulary:][:weights.Vocabulary]
		p[b.target[cell]]--
		scale := float32(float64(w) / total)
		for i := range p {
			p[i] *= scale
		}
	}
}

// stepBack moves the gradient through one time step, and leaves in n.dCarry the part
// that flows to the step before. recurrentT is the transposed Recurrent.
func (n *network) stepBack(b *batch, t int, recurrentT []float32) {
	h, first := n.params.Hidden, t*n.rows
	for r := range n.rows {
		cell := first + r
		n.cellBack(cell, n.dCarry[r*h:][:h])
	}
	kernel.Product(n.dCarry, n.dState[first*3*h:][:n.rows*3*h], recurrentT, 3*h, h)
	for r := range n.rows {
		if b.fresh[first+r] {
			clear(n.dCarry[r*h:][:h]) // the conversation before had no effect on this step
		}
	}
}

// cellBack takes the gradient of a cell's state from carry and leaves in carry
// the part that flows directly to the state before.
func (n *network) cellBack(cell int, carry []float32) {
	h := n.params.Hidden
	gates, a, prev := n.gates[cell*3*h:][:3*h], n.fromState[cell*3*h:][:3*h], n.before[cell*h:][:h]
	dIn, dState, dAfter := n.dInput[cell*3*h:][:3*h], n.dState[cell*3*h:][:3*h], n.dAfter[cell*h:][:h]
	for i := range h {
		z, r, c := gates[i], gates[h+i], gates[2*h+i]
		d := carry[i] + dAfter[i]
		dc := d * (1 - z) * (1 - c*c)
		dz := d * (prev[i] - c) * z * (1 - z)
		dr := dc * a[2*h+i] * r * (1 - r)
		dIn[i], dIn[h+i], dIn[2*h+i] = dz, dr, dc
		dState[i], dState[h+i], dState[2*h+i] = dz, dr, dc*r
		carry[i] = d * z
	}
}

// transpose writes x (rows x columns) into the scratch space, transposed. The
// result is valid until the next call.
func (n *network) transpose(x []float32, rows, columns int) []float32 {
	out := n.scratch[:rows*columns]
	for r := range rows {
		for c, v := range x[r*columns:][:columns] {
			out[c*rows+r] = v
		}
	}
	return out
}

// addColumns adds the rows of x to sum.
func addColumns(sum, x []float32) {
	for len(x) > 0 {
		for i := range sum {
			sum[i] += x[i]
		}
		x = x[len(sum):]
	}
}
