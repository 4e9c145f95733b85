package gate

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestATurnHasOneWriterAtATimeAndMissesNothing(t *testing.T) {
	const callers, wakes = 8, 2000
	turn := turn{free: true}
	var due, seen, running, most atomic.Int64
	var writers, all sync.WaitGroup
	write := func() {
		for {
			most.Store(max(most.Load(), running.Add(1)))
			seen.Store(due.Load())
			running.Add(-1)
			if turn.give() {
				return
			}
		}
	}
	for range callers {
		all.Go(func() {
			for range wakes {
				due.Add(1)
				if turn.take() {
					writers.Go(write)
				}
			}
		})
	}
	all.Wait()
	writers.Wait()
	if got := most.Load(); got != 1 {
		t.Errorf("writers at once: got %d, want 1", got)
	}
	if got := seen.Load(); got != callers*wakes {
		t.Errorf("the last writer saw %d of %d", got, callers*wakes)
	}
}

func TestATurnThatEndsWaitsForItsWriterAndStartsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := turn{free: true}
		if !turn.take() {
			t.Fatal("take: got false, want true")
		}
		ended := make(chan struct{})
		go func() {
			turn.end()
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the turn ends while its writer runs")
		default:
		}
		if turn.take() {
			t.Error("take beside a writer: got true, want false")
		}
		if !turn.give() {
			t.Error("give at the end: got false, want true")
		}
		<-ended
		if turn.take() {
			t.Error("take after the end: got true, want false")
		}
	})
}

func TestAWriterThatWaitsHearsWhatBecomesDue(t *testing.T) {
	for name, before := range map[string]bool{"before it waits": true, "while it waits": false} {
		turn := turn{free: true}
		turn.take()
		if before {
			turn.take()
		}
		due := turn.wait()
		if !before {
			turn.take()
		}
		select {
		case <-due:
		default:
			t.Errorf("%s: nothing is heard", name)
		}
	}
}
