package chaos

import (
	"fmt"
	"sync"
	"testing"

	"svc.internal/services/proving/internal/chaos/plan"
)

func TestLanesKeepFaultsApartThatMustNotMeet(t *testing.T) {
	for _, lanes := range []int{defaultLanes, defaultLanes + 1} { // make chaos's, and CI's
		t.Run(fmt.Sprint(lanes), func(t *testing.T) { keepApart(t, lanes) })
	}
}

func keepApart(t *testing.T, lanes int) {
	t.Helper()
	l := newLanes(lanes)
	faults := plan.Make(9, 400, plan.Cells())
	var mu sync.Mutex
	var under []plan.Cell
	busiest := 0
	var wg sync.WaitGroup
	for _, f := range faults {
		l.enter(f.Cell)
		mu.Lock()
		for _, other := range under {
			switch {
			case other.Key() == f.Cell.Key():
				t.Errorf("%s is begun beside: other.Key(): got %q, want any but %q", f.Cell.Name(), other.Key(), f.Cell.Key())
			case !other.Class().Meets(f.Cell.Class()):
				t.Errorf("%s is begun beside: other.Class().Meets(f.Cell.Class()): got false, want true", f.Cell.Name())
			case other.Kind == plan.Dark:
				t.Errorf("%s is begun beside: other.Kind: got %q, want any but %q", f.Cell.Name(), other.Kind, plan.Dark)
			}
		}
		under = append(under, f.Cell)
		busiest = max(busiest, len(under))
		mu.Unlock()
		wg.Go(func() {
			mu.Lock()
			for i, other := range under {
				if other.Name() == f.Cell.Name() {
					under = append(under[:i:i], under[i+1:]...)
					break
				}
			}
			mu.Unlock()
			l.leave(f.Cell)
		})
	}
	wg.Wait()
	if busiest > lanes {
		t.Errorf("got %d faults at once, want at most %d", busiest, lanes)
	}
}

func TestAFullLaneWaitsForOneThatEnds(t *testing.T) {
	l := newLanes(1)
	cells := plan.Cells()
	l.enter(cells[0])
	if l.freeLocked(cells[20]) {
		t.Error("two faults are let into one lane")
	}
	entered := make(chan struct{})
	go func() {
		l.enter(cells[20])
		close(entered)
	}()
	l.leave(cells[0])
	<-entered
}
