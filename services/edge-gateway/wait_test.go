package edgegateway

import (
	"runtime"
	"testing"
	"time"
)

// patience bounds the wait for what must happen. In a bubble it is the bubble's time.
const patience = 5 * time.Minute

// awaited returns what a channel has next.
func awaited[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("what the test waits for did not come")
		panic("unreachable")
	}
}

// until waits for what no channel announces.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	if !comes(reached) {
		t.Fatalf("it did not come: %s", what)
	}
}

// comes reports whether something that no channel announces is reached in time. It is for the goroutines of
// peers, which end no test.
func comes(reached func() bool) bool {
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// held waits in a peer for the test's word, which does not come when the call ends before.
func (p *played) held(word <-chan struct{}) error {
	select {
	case <-word:
		return nil
	case <-p.stream.Context().Done():
		return p.stream.Context().Err()
	}
}

func yield() { runtime.Gosched() }
