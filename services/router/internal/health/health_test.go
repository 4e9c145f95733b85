package health

import (
	"sync"
	"testing"
	"time"

	"svc.internal/services/router/internal/window"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestAFullRegistryRefusesNewPairsAndKeepsTheOld(t *testing.T) {
	r := New()
	r.limit = 2
	a, b := r.Get(Pair{"p", "a"}), r.Get(Pair{"p", "b"})
	switch {
	case a == nil:
		t.Fatal(`two pairs fit: r.Get(Pair{"p", "a"}): got nil, want a value`)
	case b == nil:
		t.Fatal(`two pairs fit: r.Get(Pair{"p", "b"}): got nil, want a value`)
	case a == b:
		t.Fatalf(`two pairs fit: r.Get(Pair{"p", "a"}): got %p, want any but %p`, a, b)
	}
	if r.Get(Pair{"p", "c"}) != nil {
		t.Error("a third pair was kept")
	}
	if got := r.Get(Pair{"p", "a"}); got != a {
		t.Errorf(`the first pair: r.Get(Pair{"p", "a"}): got %p, want %p`, got, a)
	} else if r.Len() != 2 {
		t.Errorf("the first pair: r.Len(): got %d, want 2", r.Len())
	}
}

func TestAnIdlePairIsForgottenAndMakesRoom(t *testing.T) {
	r := New()
	r.limit = 1
	r.Get(Pair{"p", "a"}).Window.Record(window.Sample{At: start, Served: true})
	r.Refresh(start.Add(23 * time.Hour))
	if r.Find(Pair{"p", "a"}) == nil {
		t.Fatal("forgotten within the day")
	}
	r.Refresh(start.Add(25 * time.Hour))
	if r.Len() != 0 {
		t.Errorf("room of an idle pair: r.Len(): got %d, want 0", r.Len())
	} else if r.Get(Pair{"p", "b"}) == nil {
		t.Error(`room of an idle pair: r.Get(Pair{"p", "b"}): got nil, want a value`)
	}
}

func TestConcurrentCallersShareOneRecord(t *testing.T) {
	r := New()
	seen := make([]*Record, 16)
	var wg sync.WaitGroup
	for i := range seen {
		wg.Go(func() { seen[i] = r.Get(Pair{"p", "m"}) })
	}
	wg.Wait()
	for _, rec := range seen {
		if rec != seen[0] {
			t.Fatalf("the record of one pair, again: got %p, want %p", rec, seen[0])
		}
	}
	if r.Len() != 1 {
		t.Errorf("pairs counted: got %d, want 1", r.Len())
	}
}
