package slope

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noisy are readings of one hour, one each half minute, around a line.
func noisy(seed uint64, perHour, noise float64) []Reading {
	random := rand.New(rand.NewPCG(seed, 1))
	readings := make([]Reading, 120)
	for i := range readings {
		at := float64(i) / 120
		readings[i] = Reading{at, 100 + perHour*at + noise*random.NormFloat64()}
	}
	return readings
}

func TestALineWithoutNoiseIsFoundExactly(t *testing.T) {
	line, ok := Fit(noisy(1, 36, 0))
	if !ok {
		t.Fatal("no line was fitted")
	}
	if math.Abs(line.PerHour-36) > 1e-9 {
		t.Errorf("growth in an hour: got %v, want 36", line.PerHour)
	}
	if line.First >= line.Last {
		t.Errorf("first and last block: got %v and %v, want the first to be less", line.First, line.Last)
	}
	if !line.Grows(1) {
		t.Error("grows by more than 1: got false, want true")
	}
	if line.Grows(40) {
		t.Error("grows by more than 40: got true, want false")
	}
}

func TestTheIntervalHoldsTheGrowthAsOftenAsItSays(t *testing.T) {
	const tries = 2000
	within := 0
	for seed := range uint64(tries) {
		line, ok := Fit(noisy(seed, 5, 20))
		if !ok {
			t.Fatal("no line was fitted")
		}
		if line.Low <= 5 && 5 <= line.High {
			within++
		}
	}
	if got := float64(within) / tries; got < 0.93 || got > 0.97 {
		t.Errorf("intervals that hold the growth: got %.3f, want 0.93 to 0.97", got)
	}
}

func TestTooFewReadingsAreNotFitted(t *testing.T) {
	for name, readings := range map[string][]Reading{
		"none":          nil,
		"fewer":         noisy(1, 1, 1)[:Blocks-1],
		"all at once":   make([]Reading, 3*Blocks),
		"with a gap":    append(noisy(1, 1, 1)[:60], Reading{Hours: 10}),
		"one each hour": {{Hours: 1}, {Hours: 2}},
	} {
		if line, ok := Fit(readings); ok {
			t.Errorf("%s: got %+v, want no line", name, line)
		}
	}
}
