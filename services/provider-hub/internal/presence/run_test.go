package presence

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

func TestRunTellsOfThePagesWithMachinesTheLastOneToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book := &shelf{}
		var calls atomic.Int32
		r := NewRecorder("hub-a", book, clock.System, slog.New(slog.DiscardHandler))
		see := func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.left[Machine{Node: "node"}] = Seen{Machine: Machine{Node: "node"}}
		}
		want := func(n int32, when string) {
			t.Helper()
			synctest.Wait()
			if got := calls.Load(); got != n {
				t.Errorf("%s: got %d calls, want %d", when, got, n)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- r.Run(ctx, func(ctx context.Context) {
				calls.Add(1)
				if err := ctx.Err(); err != nil {
					t.Errorf("got a context that has ended with %v, want one with time left", err)
				}
			})
		}()
		want(0, "behind a page without machines")
		see()
		<-time.After(recordInterval)
		want(1, "behind a page with a machine")
		book.away.Store(true)
		see()
		<-time.After(recordInterval)
		want(1, "behind a page that was not written")
		book.away.Store(false)
		<-time.After(recordInterval)
		want(2, "behind the page that was written at last")
		see()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
		want(3, "behind the last page")
	})
}
