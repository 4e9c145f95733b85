package pick

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/window"
)

// oneSlot is a provider with a single slot, which first takes.
func oneSlot(t *testing.T) (b *bundle, first *Request) {
	t.Helper()
	b = setup()
	b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Capacity = 1 }))
	first = b.request()
	if _, err := b.Select(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	return b, first
}

func TestAWaiterIsWokenByAFreedSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, first := oneSlot(t)
		second := b.request()
		done := make(chan error, 1)
		go func() {
			_, err := b.Select(t.Context(), second)
			done <- err
		}()
		synctest.Wait()
		if b.deps.Waitlist.Waiting() != 1 {
			t.Fatal("nobody waits")
		}
		b.Ended(Attempt{Request: first.ID, Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: Served})
		began := time.Now()
		if err := <-done; err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if time.Since(began) != 0 {
			t.Errorf("woken: got %v, want 0", time.Since(began))
		}
		if got := b.deps.Waitlist.Waiting(); got != 0 {
			t.Errorf("waiters left behind: b.deps.Waitlist.Waiting(): got %d, want 0", got)
		} else if len(b.deps.Waitlist.byModel) != 0 {
			t.Errorf("waiters left behind: len(b.deps.Waitlist.byModel): got %d, want 0", len(b.deps.Waitlist.byModel))
		}
	})
}

func TestAWaiterIsWokenByANewProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := oneSlot(t)
		second := b.request()
		done := make(chan Choice, 1)
		go func() {
			c, _ := b.Select(t.Context(), second)
			done <- c
		}()
		synctest.Wait()
		b.report("hub", session(2))
		if got := chosen(<-done); len(got) != 1 {
			t.Errorf("len(got): got %d, want 1, in %v", len(got), got)
		} else if got[0] != id(2) {
			t.Errorf("got[0]: got %q, want %q", got[0], id(2))
		}
	})
}

func TestTheWaitEndsWithBusyAndLeavesTimeToAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := oneSlot(t)
		began := time.Now()
		_, err := b.Select(t.Context(), b.request())
		wantReason(t, err, fault.ProvidersBusy)
		if f, _ := fault.As(err); f.RetryAfter != busyRetry {
			t.Errorf("retry: got %v, want %v", f.RetryAfter, busyRetry)
		}
		if waited := time.Since(began); waited != MaxWait {
			t.Errorf("waited: got %v, want %v", waited, MaxWait)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Select(ctx, b.request())
		wantReason(t, err, fault.ProvidersBusy)
		if ctx.Err() != nil {
			t.Error("the caller's deadline passed during the wait")
		}
	})
}

func TestACallerWhoLeavesStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := oneSlot(t)
		ctx, cancel := context.WithCancel(t.Context())
		req := b.request()
		done := make(chan error, 1)
		go func() {
			_, err := b.Select(ctx, req)
			done <- err
		}()
		synctest.Wait()
		cancel()
		wantReason(t, <-done, fault.ClientClosed)
	})
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := oneSlot(t)
		var wg sync.WaitGroup
		for range MaxWaiters {
			req := b.request()
			wg.Go(func() { _, _ = b.Select(t.Context(), req) })
		}
		synctest.Wait()
		began := time.Now()
		_, err := b.Select(t.Context(), b.request())
		wantReason(t, err, fault.ProvidersBusy)
		if time.Since(began) != 0 {
			t.Error("the request above the bound waited")
		}
		wg.Wait()
	})
}

func TestADegradedProviderServesWhenTheWaitForOthersWasInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup()
		b.report("hub", session(1, full), session(2))
		rec := b.known.Get(health.Pair{Provider: id(2), Model: "m"})
		for i := range window.Enough {
			rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
		}
		began := time.Now()
		c, err := b.Select(t.Context(), b.request())
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case chosen(c)[0] != id(2):
			t.Errorf("chosen(c)[0]: got %q, want %q", chosen(c)[0], id(2))
		case time.Since(began) != MaxWait:
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), MaxWait)
		}
	})
}

func TestWaitersShareSlotsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, first := oneSlot(t)
		const waiters = 20
		served := make(chan string, waiters)
		for range waiters {
			req := b.request()
			go func() {
				if _, err := b.Select(t.Context(), req); err == nil {
					served <- req.ID
				}
			}()
		}
		synctest.Wait()
		holder := first.ID
		for range waiters {
			b.Ended(Attempt{Request: holder, Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: Served})
			holder = <-served
			synctest.Wait()
			if len(served) != 0 {
				t.Fatalf("one slot served two: got %d, want 0", len(served))
			}
		}
	})
}

func TestASlotThatWasBookedAndNotUsedIsFreeAtOnce(t *testing.T) {
	b, refused := oneSlot(t)
	seat := b.view.Find(id(1), "n", 1, "m")
	if seat == nil {
		t.Fatal("no seat")
	}
	b.Ended(Attempt{Request: refused.ID, Provider: id(1), Node: "n", Epoch: 1, Model: "m", NeverBegan: true})
	if !seat.Slots.Book("next", b.clock.Now()) {
		t.Error("the slot is still taken")
	}
	if rec := b.known.Get(health.Pair{Provider: id(1), Model: "m"}); rec != nil &&
		rec.Window.Figures(b.clock.Now()).Samples != 0 {
		t.Error("an attempt that never began was learnt from")
	}
}

// A request with priority that came last looks first. One that leaves keeps nobody asleep.
func TestPriorityGoesAheadAndKeepsNobodyAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, running := oneSlot(t)
		free := func(r *Request) {
			b.Ended(Attempt{Request: r.ID, Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: Served})
			synctest.Wait()
		}
		served := make(chan *Request, 8)
		ask := func(ctx context.Context, priority bool) *Request {
			req := b.request()
			req.Priority = priority
			go func() {
				if _, err := b.Select(ctx, req); err == nil {
					served <- req
				}
			}()
			synctest.Wait()
			return req
		}
		wantServed := func(want *Request) {
			t.Helper()
			select {
			case got := <-served:
				if got != want {
					t.Errorf("served: got the request of priority %t, want that of %t", got.Priority, want.Priority)
				}
			default:
				t.Error("nobody was served")
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		ordinary := ask(t.Context(), false)
		ask(leaving, true)
		first := ask(t.Context(), true)
		leave()
		synctest.Wait()
		free(running)
		wantServed(first)
		free(first)
		wantServed(ordinary)
		if got := b.deps.Waitlist.Waiting(); got != 0 {
			t.Errorf("waiting: got %d, want 0", got)
		}
	})
}

// Those with priority who look in vain wake the others.
func TestOthersWakeOncePriorityHasLooked(t *testing.T) {
	t.Parallel()
	b := NewWaitlist()
	for _, priority := range []bool{true, true, false} {
		if !b.enter("m", priority) {
			t.Fatal("no room")
		}
	}
	asleep := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return false
		default:
			return true
		}
	}
	ahead, other := b.next("m", true), b.next("m", false)
	b.Wake("m")
	if asleep(ahead) || !asleep(other) {
		t.Fatalf("woken: got %t and %t, want those with priority alone", !asleep(ahead), !asleep(other))
	}
	b.looked("m")
	if !asleep(other) {
		t.Error("one of two has looked: the others are woken, want them asleep")
	}
	b.leave("m", true)
	if asleep(other) {
		t.Error("one has looked and one has left: the others sleep, want them woken")
	}
	other = b.next("m", false)
	b.leave("m", true)
	if !asleep(other) {
		t.Error("nobody was woken, and the others are")
	}
	b.Wake("m")
	if asleep(other) {
		t.Error("without priority: the others sleep, want them woken")
	}
	b.leave("m", false)
	if len(b.byModel) != 0 {
		t.Errorf("models: got %d, want 0", len(b.byModel))
	}
}
