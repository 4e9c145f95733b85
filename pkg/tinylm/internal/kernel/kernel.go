// Package kernel holds the arithmetic that tinylm's inference and training
// share: a row-accumulating matrix product and three activation functions.
//
// Results are the same bits on every machine. Each output element is summed in
// ascending row order, each product is rounded to float32 before it is added
// (the explicit conversions forbid fused multiply-add), and Exp is a
// polynomial written here rather than the assembly of the math package. A
// build with GOEXPERIMENT=simd on amd64 computes eight elements at once, in the
// same order and so with the same result. This makes training several times
// faster and changes nothing else.
package kernel

import "math"

// block is the number of rows that one pass over the output adds.
const block = 8

// AddRows adds to out the rows of w, each times its element of x:
// out[j] += x[i]*w[i*len(out)+j] for ascending i. w holds len(x) rows.
func AddRows(out, x, w []float32) {
	n := len(out)
	w = w[:len(x)*n]
	for len(x) >= block {
		addBlock(out, (*[block]float32)(x), w)
		x, w = x[block:], w[block*n:]
	}
	for i, f := range x {
		row := w[i*n:][:n]
		for j := range out {
			out[j] += float32(f * row[j])
		}
	}
}

// Product adds to out (rows x n) the product of x (rows x k) and w (k x n). It
// applies each block of w to all rows before the next block, so that the block
// stays in cache.
func Product(out, x, w []float32, k, n int) {
	rows := len(x) / k
	at := 0
	for ; at+block <= k; at += block {
		for r := range rows {
			addBlock(out[r*n:][:n], (*[block]float32)(x[r*k+at:]), w[at*n:][:block*n])
		}
	}
	if at < k {
		for r := range rows {
			AddRows(out[r*n:][:n], x[r*k+at:][:k-at], w[at*n:])
		}
	}
}

// addBlockPlain is AddRows for one block of rows, four products at a time. The
// race detector does not watch it, because the detector would slow this loop
// twentyfold, and with it the tests of every program that runs the model. The
// detector watches the callers, which touch the same slices.
//
//go:norace
func addBlockPlain(out []float32, x *[block]float32, w []float32) {
	n := len(out)
	for half := 0; half < block; half += 4 {
		x0, x1, x2, x3 := x[half], x[half+1], x[half+2], x[half+3]
		w0, w1, w2, w3 := w[half*n:][:n], w[(half+1)*n:][:n], w[(half+2)*n:][:n], w[(half+3)*n:][:n]
		for j, sum := range out {
			sum += float32(x0 * w0[j])
			sum += float32(x1 * w1[j])
			sum += float32(x2 * w2[j])
			sum += float32(x3 * w3[j])
			out[j] = sum
		}
	}
}

// Exp is e to the x, within 2 units of the last place; it is 0 below -87 and
// stays finite above 88.
func Exp(x float32) float32 {
	const (
		log2e   = 1.44269504
		ln2High = 0.693359375
		ln2Low  = -2.12194440e-4
		bias    = 127 // of a float32's exponent
	)
	if x < -87 {
		return 0
	}
	x = min(x, 88)
	exponent := int32(float32(x*log2e) + (bias + 0.5)) // positive, so this rounds to the nearest
	n := float32(exponent - bias)
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	p := float32(float32(1.0/5040)*r) + 1.0/720
	p = float32(p*r) + 1.0/120
	p = float32(p*r) + 1.0/24
	p = float32(p*r) + 1.0/6
	p = float32(p*r) + 0.5
	p = float32(p*r) + 1
	p = float32(p*r) + 1
	return p * math.Float32frombits(uint32(exponent)<<23)
}

// Sigmoid is 1/(1+e^-x).
func Sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }

// Tanh is the hyperbolic tangent.
func Tanh(x float32) float32 { return 2*Sigmoid(2*x) - 1 }
