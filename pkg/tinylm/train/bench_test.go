package main

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/tinylm/internal/weights"
)

func BenchmarkStep(b *testing.B) {
	params := weights.New(32, 256)
	initialize(params, rand.New(rand.NewPCG(1, 1)))
	net, opt, text := newNetwork(params, 16, 96), newAdam(params), newFeed(1, 16, 96)
	for b.Loop() {
		x := text.next()
		net.loss(x)
		net.backward(x)
		opt.update(params, net.grads, 0.001)
	}
}
