package main

import (
	"testing"
	"time"
)

func TestIdleCPUIsByTheSecond(t *testing.T) {
	// The database's process that began meanwhile counts, and what ended gives nothing back.
	before := map[string]float64{"standalone": 2, "gone": 9}
	after := map[string]float64{"standalone": 2.02, "postgres": 0.01}
	if got := idleMillis(before, after, 10*time.Second); got < 2.999 || got > 3.001 {
		t.Errorf("30 ms in 10 s: got %v ms/s, want 3", got)
	}
}

func TestTheLoadOfOthersLeavesThisOneOut(t *testing.T) {
	for running, want := range map[int]int{0: 0, 1: 0, 4: 3} {
		if got := others(running); got != want {
			t.Errorf("%d threads: got %d of others, want %d", running, got, want)
		}
	}
}
