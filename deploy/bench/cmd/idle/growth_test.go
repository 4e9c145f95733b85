package main

import "testing"

func TestGrowthIsOfAllProcessesByName(t *testing.T) {
	g := kibEach(map[string]int64{"standalone": 10 << 20, "postgres": 8 << 20},
		map[string]int64{"standalone": 14 << 20, "postgres": 7 << 20, "helper": 1 << 20}, 1024)
	if got, want := g.sum(), 4.0; got != want {
		t.Errorf("sum: got %v KiB, want %v", got, want)
	}
	if got, want := g.String(), "4.0 KiB each (helper 1.0, postgres -1.0, standalone 4.0)"; got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
}
