package record

import (
	"maps"
	"testing"

	"inference-bench/internal/loadgen"
)

func TestARatioIsTakenWithinItsRound(t *testing.T) {
	// The second round slowed both sides down to a quarter; the third has one side alone.
	mine, ref := Series{0: 100, 1: 400, 2: 900}, Series{0: 10, 1: 40, 3: 1}
	ratio := mine.Over(ref)
	if want := (Series{0: 10, 1: 10}); !maps.Equal(ratio, want) {
		t.Errorf("ratios: got %v, want %v", ratio, want)
	}
}

func TestNothingIsDividedByNothing(t *testing.T) {
	if got := (Series{0: 5, 1: 5}).Over(Series{0: 0, 1: 5}); !maps.Equal(got, Series{1: 1}) {
		t.Errorf("ratios: got %v, want that of round 1 alone", got)
	}
}

func TestADifferenceIsTakenWithinItsRound(t *testing.T) {
	if got, want := (Series{0: 5, 1: 9, 2: 1}).Less(Series{0: 3, 1: 10}), (Series{0: 2, 1: -1}); !maps.Equal(got, want) {
		t.Errorf("differences: got %v, want %v", got, want)
	}
}

func TestTheSpreadIsLowestAndHighest(t *testing.T) {
	s := Series{0: 14, 1: 13, 4: 19}
	low, high := s.Spread()
	if low != 13 {
		t.Errorf("low: got %v, want 13", low)
	}
	if high != 19 {
		t.Errorf("high: got %v, want 19", high)
	}
	if got := s.Median(); got != 14 {
		t.Errorf("median: got %v, want 14", got)
	}
}

func TestARoundOfErrorsIsInNoSeries(t *testing.T) {
	set := Set{
		{Scenario: "chat-1", Target: "x", Round: 0, Result: &loadgen.Result{Requests: 10, P50: 7}},
		{Scenario: "chat-1", Target: "x", Round: 1, Result: &loadgen.Result{Errors: 5, P50: 9}},
		{Scenario: "chat-1", Target: "y", Round: 2, Result: &loadgen.Result{Requests: 1, P50: 8}},
		{Scenario: "live", Target: "x", Round: 3, Result: &loadgen.Result{Chunks: 1, P50: 6}},
	}
	got := set.Series("chat-1", "x", func(r *loadgen.Result) float64 { return r.P50 })
	if want := (Series{0: 7}); !maps.Equal(got, want) {
		t.Errorf("series: got %v, want %v", got, want)
	}
}

func TestMeasuresAreInTheirOrder(t *testing.T) {
	set := Set{{Target: Machine, Measure: "load", Value: 2}, {Target: "x", Measure: "load", Value: 9},
		{Target: Machine, Measure: "load", Value: 1}}
	if got, want := set.Measures("load", Machine), (Series{0: 2, 1: 1}); !maps.Equal(got, want) {
		t.Errorf("measures: got %v, want %v", got, want)
	}
}
