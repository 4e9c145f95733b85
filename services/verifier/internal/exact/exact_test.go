package exact_test

import (
	"errors"
	"math"
	"testing"

	"svc.internal/services/verifier/internal/exact"
)

func TestExpAndLog2AreRight(t *testing.T) {
	t.Parallel()
	for i := -70_000; i <= 70_000; i++ {
		x := float64(i) / 100.0001
		if x < -700 {
			continue
		}
		got, want := exact.Exp(x), math.Exp(x)
		if math.Abs(got-want) > 4*(math.Nextafter(want, math.Inf(1))-want) {
			t.Fatalf("Exp(%v): got %v, want %v", x, got, want)
		}
		if back := exact.Log2(want); math.Abs(back-math.Log2(want)) > 1e-15*math.Max(1, math.Abs(back)) {
			t.Fatalf("Log2(%v): got %v, want %v", want, back, math.Log2(want))
		}
	}
}

// The bits are those of every machine: a processor that fuses, or a library that rounds
// otherwise, gives others.
func TestTheBitsAreKnown(t *testing.T) {
	t.Parallel()
	sum := uint64(0)
	for i := range 200_000 {
		x := float64(i)/317.0 - 600
		sum = sum*31 + math.Float64bits(exact.Exp(x))
		sum = sum*31 + math.Float64bits(exact.Log2(float64(i)+0.123))
	}
	if want := uint64(0x7c96d31e673288cb); sum != want {
		t.Errorf("got %#x, want %#x", sum, want)
	}
}

func TestTheEndsOfExpAndLog2(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want float64 }{
		{exact.Exp(0), 1}, {exact.Exp(-701), 0}, {exact.Exp(710), math.Inf(1)},
		{exact.Exp(math.Inf(-1)), 0}, {exact.Exp(math.Inf(1)), math.Inf(1)},
		{exact.Log2(1), 0}, {exact.Log2(8), 3}, {exact.Log2(0), math.Inf(-1)},
		{exact.Log2(math.Inf(1)), math.Inf(1)},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
	for name, got := range map[string]float64{
		"Exp(NaN)": exact.Exp(math.NaN()), "Log2(NaN)": exact.Log2(math.NaN()), "Log2(-1)": exact.Log2(-1),
	} {
		if !math.IsNaN(got) {
			t.Errorf("%s: got %v, want NaN", name, got)
		}
	}
}

func TestLogprobsAreRoundedOnceAndBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nats float64
		want exact.Logprob
	}{
		{0, 0}, {0.0009, 0}, {-0.5, -500_000}, {-1.2345675, -1_234_568}, {-99.9999999, -100_000_000},
		{-9999, exact.MinLogprob}, {math.Inf(-1), exact.MinLogprob}, {-1e300, exact.MinLogprob},
	} {
		got, err := exact.Round(c.nats)
		if err != nil {
			t.Errorf("Round(%v): got the error %v, want none", c.nats, err)
		}
		if got != c.want {
			t.Errorf("Round(%v): got %v, want %v", c.nats, got, c.want)
		}
	}
	for _, nats := range []float64{math.NaN(), math.Inf(1), 0.002, 5} {
		if got, err := exact.Round(nats); !errors.Is(err, exact.ErrNoLogprob) {
			t.Errorf("Round(%v): got %v and the error %v, want %v", nats, got, err, exact.ErrNoLogprob)
		}
	}
	if got := exact.Logprob(-693_147).P(); math.Abs(got-0.5) > 1e-6 {
		t.Errorf("P: got %v, want 0.5", got)
	}
}
