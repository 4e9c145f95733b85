package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = rng.Float32()*2 - 1
	}
	return out
}

// TestBlocksSumInRowOrder also proves, in a build with GOEXPERIMENT=simd, that
// the vector code gives the bits of the plain code.
func TestBlocksSumInRowOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{1, 3}, {8, 8}, {11, 5}, {16, 24}, {35, 768}} {
		k, n := size[0], size[1]
		out, x, w := random(rng, 3*n), random(rng, 3*k), random(rng, k*n)
		want := slices.Clone(out)
		for r := range 3 {
			for i := range k {
				for j := range n {
					want[r*n+j] += float32(x[r*k+i] * w[i*n+j])
				}
			}
		}
		got := slices.Clone(out)
		for r := range 3 {
			AddRows(got[r*n:][:n], x[r*k:][:k], w)
		}
		if !slices.Equal(got, want) {
			t.Errorf("AddRows of %d rows of %d and the sum in row order: got %v, want %v", k, n, got, want)
		}
		Product(out, x, w, k, n)
		if !slices.Equal(out, want) {
			t.Errorf("Product of %d rows of %d and the sum in row order: got %v, want %v", k, n, out, want)
		}
	}
}

func TestActivationsFollowTheMathPackage(t *testing.T) {
	for x := -86.0; x < 87; x += 0.0137 {
		got, want := float64(Exp(float32(x))), math.Exp(float64(float32(x)))
		if math.Abs(got-want) > 4e-7*want {
			t.Fatalf("Exp(%v) = %v, want %v", x, got, want)
		}
	}
	for x := -30.0; x < 30; x += 0.0137 {
		if got, want := float64(Tanh(float32(x))), math.Tanh(x); math.Abs(got-want) > 1e-6 {
			t.Fatalf("Tanh(%v) = %v, want %v", x, got, want)
		}
	}
	switch {
	case Exp(-1000) != 0:
		t.Errorf("activations at the ends of their range: Exp(-1000): got %v, want 0", Exp(-1000))
	case math.IsInf(float64(Exp(1000)), 0):
		t.Error("activations at the ends of their range: math.IsInf(float64(Exp(1000)), 0): got true, want false")
	case Sigmoid(-1000) > 1e-30:
		t.Errorf("activations at the ends of their range: Sigmoid(-1000): got %v, want at most 1e-30", Sigmoid(-1000))
	case Sigmoid(1000) != 1:
		t.Errorf("activations at the ends of their range: Sigmoid(1000): got %v, want 1", Sigmoid(1000))
	}
}
