package presence

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// A hub lets a session change its models as often as its agent sends heartbeats, and
// a provider register again and again.
func TestAFloodOfChangingModelListsLeavesNothingBehind(t *testing.T) {
	const rounds = 2_000
	v, now := New(func(string) {}), start
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before int64
	for round := range rounds {
		s := Session{Provider: "p", Node: fmt.Sprint("n", round%8), Epoch: int64(1 + round/4), Active: true}
		for i := range MaxModels {
			s.Offers = append(s.Offers, Offer{Model: fmt.Sprintf("made-up-%d-%d", round, i), Healthy: round%2 == 0,
				Window: int64(round), Capacity: 1 + round%100})
		}
		r := Report{Hub: "h", Incarnation: 1, Address: "x", Revision: uint64(round + 1), Sessions: []Session{s}}
		if s.Epoch > 8 {
			r.Ended = []int64{s.Epoch - 8}
		}
		v.Apply(r, now)
		now = now.Add(time.Millisecond)
		if round == rounds/10 {
			before = heap()
		}
	}
	sessions, _, _ := v.Size()
	if sessions > 9 {
		t.Fatalf("got %d sessions, want the 9 newest at most", sessions)
	}
	if got, want := len(v.Models()), sessions*MaxModels; got > want {
		t.Errorf("got %d models in the view, want at most %d: those that are offered now", got, want)
	}
	for _, rec := range v.providers["p"] {
		if got := len(rec.Value.slots); got > MaxModels {
			t.Errorf("got %d slots of a session, want at most %d", got, MaxModels)
		}
	}
	if _, nodes, _, _ := v.set.Size(); len(v.touched) != 0 || nodes > 8 || len(v.providers) != 1 {
		t.Errorf("got %d touched, %d nodes, %d providers; want 0, at most 8 and 1", len(v.touched), nodes,
			len(v.providers))
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("got %d KiB more after %d changes, want none to speak of", grown>>10, rounds*9/10)
	}
	runtime.KeepAlive(v)
}
