package soak

import (
	"math"
	"strings"
	"testing"

	"inference-bench/internal/slope"
)

// over are readings of an hour that begin at from and end at to.
func over(from, to float64) []slope.Reading {
	readings := make([]slope.Reading, 121)
	for i := range readings {
		at := float64(i) / 120
		readings[i] = slope.Reading{Hours: at, Value: from + (to-from)*at}
	}
	return readings
}

func TestEachSeriesHasItsVerdict(t *testing.T) {
	for _, c := range []struct {
		series Series
		want   string
	}{
		{Series{Unit: Bytes, Readings: over(8<<20, 8<<20)}, "flat"},
		{Series{Unit: Bytes, Readings: over(8<<20, 8<<20+1000)}, "flat"},
		{Series{Unit: Bytes, Readings: over(8<<20, 80<<20)}, "grows"},
		{Series{Unit: Bytes, Readings: over(80<<20, 8<<20)}, "flat"},
		{Series{Unit: Bytes, Served: true, Readings: over(8<<20, 80<<20)}, "grows with what is served"},
		{Series{Readings: over(100, 100.5)}, "flat"},
		{Series{Readings: over(100, 400)}, "grows"},
	} {
		fitted := Fit([]*Series{&c.series}, 0)
		if len(fitted) != 1 {
			t.Fatalf("series fitted: got %d, want 1", len(fitted))
		}
		if got := fitted[0].Verdict(); got != c.want {
			t.Errorf("from %v to %v: got %q, want %q", c.series.First, c.series.Last, got, c.want)
		}
	}
}

func TestTheWarmUpDoesNotCount(t *testing.T) {
	readings := over(50, 50)
	for i := range readings[:30] {
		readings[i].Value = float64(i)
	}
	fitted := Fit([]*Series{{Name: "x", Readings: readings}}, 0.25)
	if len(fitted) != 1 {
		t.Fatalf("series fitted: got %d, want 1", len(fitted))
	}
	if got := fitted[0].PerHour; math.Abs(got) > 1e-9 {
		t.Errorf("growth behind the warm-up: got %v, want 0", got)
	}
}

func TestASeriesThatBeganLateIsLeftOut(t *testing.T) {
	late := &Series{Name: "late", Readings: over(1, 1)[110:]}
	if got := Fit([]*Series{late}, 0); len(got) != 0 {
		t.Errorf("series fitted: got %d, want none", len(got))
	}
}

func TestTheTableLeavesSmallFlatTablesOut(t *testing.T) {
	fitted := Fit([]*Series{
		{Name: "table a.small", Unit: Bytes, Served: true, Readings: over(8192, 8192)},
		{Name: "table a.lines", Unit: Bytes, Served: true, Readings: over(0, 100<<20)},
		{Name: "goroutines", Readings: over(40, 40)},
	}, 0)
	var out strings.Builder
	if err := Print(&out, fitted, 100_000, 1); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "a.small") {
		t.Errorf("the table: got %q, want it without a.small", out.String())
	}
	for _, want := range []string{"1049 bytes", "goroutines", "Flat tables below 256 KiB that are left out: 1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table: got %q, want %q in it", out.String(), want)
		}
	}
}
