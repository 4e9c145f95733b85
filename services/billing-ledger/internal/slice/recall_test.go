package slice

import (
	"errors"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
)

func TestASliceThatNobodyUsesIsClosed(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		for range 5 {
			pass(t, heartbeat)
			b.admit(t, 1)
		}
		pass(t, idleAfter)
		if !b.isOpen() {
			t.Error("got the slice closed, want it open")
		}
		pass(t, 3*Every)
		same(t, "the slice is open", b.isOpen(), false)
		same(t, "held, by the holds alone", b.account.held, 5)
		b.open(t) // at once, because nobody recalled the one before
	})
}

func TestRecallsShareTheEndOfASlice(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 5)
		b.world.latency = 10 * time.Millisecond
		taken := b.spy.taken()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := b.Recall(t.Context(), b.account.id); err != nil {
					t.Error(err)
				}
				same(t, "the slice is open after a recall", b.isOpen(), false)
				same(t, "holds after a recall", b.holds(pin), 1)
			})
		}
		all.Wait()
		if got := b.spy.taken() - taken; got != 1 {
			t.Errorf("got %d turns, want 1", got)
		}
		if _, _, ok := b.Admit(t.Context(), b.request(1)); ok {
			t.Error("after a recall: got an admission, want doubt")
		}
	})
}

func TestASliceThatTheOwnerDoesNotKnowOfIsRecalledToo(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		if _, err := b.world.Turn(t.Context(), b.cfg.Owner, []Turn{{Account: b.account.id, Want: 10}}); err != nil {
			t.Fatal(err)
		}
		if err := b.Recall(t.Context(), b.account.id); err != nil {
			t.Error(err)
		}
		same(t, "the slice is open", b.isOpen(), false)
	})
}

func TestASliceThatIsRecalledThroughTheDatabaseIsClosedAndPaused(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		b.spy.set(func() { b.spy.told = func(st *State) { st.Recalled = true } })
		b.admit(t, 70)
		pass(t, Every)
		if b.isOpen() {
			t.Error("after the turn that told of the recall: got the slice open, want it closed")
		}
		if got := b.Waiting(); got != 0 {
			t.Errorf("got %d unwritten requests, want none", got)
		}
		b.spy.set(func() { b.spy.told = nil })
		b.saw(busy)
		pass(t, Every)
		if b.isOpen() {
			t.Error("within the pause: got a slice, want none")
		}
		pass(t, minPause)
		b.open(t)
	})
}

func TestLeavingASliceKeepsTheAccountFromOneForASecond(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		if err := b.Leave(t.Context(), b.key); err != nil {
			t.Errorf("without a slice: got the error %v, want none", err)
		}
		same(t, "turns without a slice", b.spy.taken(), 0)
		b.open(t)
		for range worthwhile {
			b.admit(t, 1)
		}
		if err := b.Leave(t.Context(), b.key); err != nil {
			t.Fatal(err)
		}
		same(t, "the slice is open", b.isOpen(), false)
		b.saw(busy)
		pass(t, minPause-time.Millisecond)
		if b.isOpen() {
			t.Error("within a second: got a slice, want none")
		}
		pass(t, busyWithin)
		b.open(t)
	})
}

func TestThePausesBetweenSlicesThatDoNotPayDouble(t *testing.T) {
	now, id := time.Unix(1000, 0), ids.AccountID{1}
	s := newSeen()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		s.pause(id, worthwhile-1, now)
		if got := s.ofLocked(id).none.Sub(now); got != want*time.Second {
			t.Errorf("got a pause of %v, want %v", got, want*time.Second)
		}
		now = now.Add(want * time.Second)
	}
	s.pause(id, worthwhile, now)
	if got := s.ofLocked(id).none.Sub(now); got != minPause {
		t.Errorf("after a slice that pays: got a pause of %v, want %v", got, minPause)
	}
}

func TestNobodyWaitsForASliceThatIsDead(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 1)
		pass(t, Every)
		wrote := time.Now()
		b.admit(t, 1)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		pass(t, Every)
		for range 2 {
			if err := b.Leave(t.Context(), b.key); err != nil {
				t.Error(err)
			}
			if since := time.Since(wrote); since != Lease {
				t.Errorf("got an end %v after the last write, want one after %v", since, Lease)
			}
		}
		r := b.request(1)
		d, err := b.world.Admit(t.Context(), []hold.Reservation{r})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "outcome of the exact path, which strands the slice", d[0].Outcome, hold.RateLimited)
		b.spy.set(func() { b.spy.fail = nil })
		pass(t, maxBackoff+Every)
		same(t, "slices", b.Open(), 0)
		same(t, "unwritten requests", b.Waiting(), 0)
		same(t, "holds", b.holds(pin), 1)
	})
}

func TestAWishIsNoSliceToLeave(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.saw(busy)
		if err := b.Leave(t.Context(), b.key); err != nil {
			t.Error(err)
		}
		pass(t, Every)
		if !b.isOpen() {
			t.Error("got no slice, want the one that was asked for")
		}
	})
}

func TestAnOwnerThatStopsClosesItsSlices(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 3)
		b.stop()
		same(t, "the slice is open", b.isOpen(), false)
		same(t, "holds", b.holds(pin), 1)
		same(t, "slices that the owner knows", b.Open(), 0)
		same(t, "unwritten requests", b.Waiting(), 0)
		b.saw(busy)
		if b.Open() != 0 {
			t.Error("after the end: got a wish for a slice, want none")
		}
	})
}

func TestAnOwnerThatCannotCloseItsSlicesStopsInTime(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 3)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		var recalled error
		var all sync.WaitGroup
		began := time.Now()
		all.Go(b.stop)
		all.Go(func() { recalled = b.Recall(t.Context(), b.account.id) })
		all.Wait()
		if took := time.Since(began); took > b.cfg.StopTimeout+maxBackoff {
			t.Errorf("got an end after %v, want one within %v", took, b.cfg.StopTimeout)
		}
		if recalled != nil {
			t.Errorf("a recall: got the error %v, want none when the slice is dead", recalled)
		}
		if err := b.Recall(t.Context(), b.account.id); !errors.Is(err, errStopped) {
			t.Errorf("a recall afterwards: got the error %v, want %v", err, errStopped)
		}
		if err := b.Write(t.Context(), []hold.Pin{pin}); err != nil {
			t.Errorf("afterwards: got the error %v, want none", err)
		}
		same(t, "pins from the writer afterwards", len(b.written), 1)
		if b.Waiting() != 0 {
			t.Errorf("got %d unwritten requests, want none that this owner knows of", b.Waiting())
		}
	})
}

func TestASliceThatWasStrandedIsDroppedAndItsPinsAreWritten(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 3)
		b.world.mu.Lock()
		for _, s := range b.world.slices {
			s.aliveUntil = time.Time{}
		}
		b.world.openSliceLocked(b.account, time.Now())
		b.world.mu.Unlock()
		pass(t, Every)
		same(t, "holds", b.holds(pin), 1)
		same(t, "slices that the owner knows", b.Open(), 0)
	})
}

func TestAnOpeningThatMayComeLateMeetsNoOtherSlice(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		b.saw(busy)
		pass(t, Every+time.Millisecond)
		b.spy.set(func() { b.spy.fail = nil })
		pass(t, 5*Every)
		if got := b.Open(); got != 0 {
			t.Fatalf("got %d slices, want the one whose opening failed ended", got)
		}
		for range 4 {
			b.saw(busy)
			pass(t, busyWithin)
		}
		if b.isOpen() {
			t.Errorf("within %v: got a slice, want none", lateFor)
		}
		pass(t, busyWithin)
		b.open(t)
	})
}
