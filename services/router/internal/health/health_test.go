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
	if a == nil || b == nil || a == b {
		t.Fatal("two pairs fit")
	}
	if r.Get(Pair{"p", "c"}) != nil {
		t.Error("a third pair was kept")
	}
	if r.Get(Pair{"p", "a"}) != a || r.Len() != 2 {
		t.Error("the first pair was lost")
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
	if r.Len() != 0 || r.Get(Pair{"p", "b"}) == nil {
		t.Error("an idle pair takes room")
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
			t.Fatal("two records for one pair")
		}
	}
	if r.Len() != 1 {
		t.Errorf("%d pairs counted", r.Len())
	}
}
