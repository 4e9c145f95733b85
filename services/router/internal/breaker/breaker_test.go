package breaker

import (
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// in is a breaker that stands in a state, whose rest ends at start.
func in(s State) *Breaker {
	b := &Breaker{state: s, until: start}
	if s == Open {
		b.until = start.Add(FirstRest)
	}
	return b
}

func TestEveryTransitionIsAsDocumented(t *testing.T) {
	table := []struct {
		from State
		by   trigger
		to   State
	}{
		{Closed, success, Closed}, {Closed, failure, Closed}, {Closed, strike, Open}, {Closed, rested, Closed},
		{Open, success, Open}, {Open, failure, Open}, {Open, strike, Open}, {Open, rested, HalfOpen},
		{HalfOpen, success, Closed}, {HalfOpen, failure, Open}, {HalfOpen, strike, Open}, {HalfOpen, rested, HalfOpen},
	}
	if len(table) != len(transitions)*int(triggers) {
		t.Fatalf("%d rows for %d transitions", len(table), len(transitions)*int(triggers))
	}
	for _, row := range table {
		b := in(row.from)
		b.fire(row.by, start)
		if b.state != row.to {
			t.Errorf("from %d by %d to %d, want %d", row.from, row.by, b.state, row.to)
		}
	}
}

func TestFailuresInARowOpenAndASuccessBetweenThemDoesNot(t *testing.T) {
	b := &Breaker{}
	for range Threshold - 1 {
		b.Failed(start)
	}
	b.Served(start)
	for range Threshold - 1 {
		b.Failed(start)
	}
	if b.State(start) != Closed {
		t.Fatal("opened although the failures were not in a row")
	}
	b.Failed(start)
	if b.State(start) != Open {
		t.Fatal("did not open")
	}
	if ok, _ := b.Admits(start.Add(FirstRest - 1)); ok {
		t.Error("admits while open")
	}
}

func TestHalfOpenAdmitsOneProbeAtATime(t *testing.T) {
	b := in(Open)
	now := start.Add(FirstRest)
	if ok, probe := b.Admits(now); !ok || !probe {
		t.Fatal("a rested breaker admits no probe")
	}
	if !b.Probe(now) || b.Probe(now) {
		t.Fatal("one probe exactly")
	}
	if ok, _ := b.Admits(now); ok {
		t.Error("admits beside a probe under way")
	}
	if !b.Probe(now.Add(ProbeTimeout)) {
		t.Error("a lost probe blocks for ever")
	}
	b.Served(now)
	if b.State(now) != Closed {
		t.Error("a served probe did not close it")
	}
}

func TestTheRestDoublesUpToItsBoundAndStartsOverAfterAClose(t *testing.T) {
	b, now := &Breaker{}, start
	for range Threshold {
		b.Failed(now)
	}
	want := FirstRest
	for range 10 {
		if ok, _ := b.Admits(now.Add(want - 1)); ok {
			t.Fatalf("admits before a rest of %v", want)
		}
		now = now.Add(want)
		if !b.Probe(now) {
			t.Fatalf("no probe after a rest of %v", want)
		}
		b.Failed(now)
		want = min(want*2, MaxRest)
	}
	now = now.Add(MaxRest)
	b.Probe(now)
	b.Served(now)
	for range Threshold {
		b.Failed(now)
	}
	if b.State(now.Add(FirstRest-1)) != Open || b.State(now.Add(FirstRest)) != HalfOpen {
		t.Error("the rest did not start over")
	}
}
