package user

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
)

// hall is Passwords in a bubble, in which an attempt is counted in counts and a hash
// takes aHash.
type hall struct {
	*Passwords
	t                 *testing.T
	counts            time.Duration
	served, refused   atomic.Int32
	atWork, maxAtWork atomic.Int32
}

const (
	aCount = 2 * time.Millisecond
	aHash  = 25 * time.Millisecond
	// patience is how long gateways wait.
	patience = 5 * time.Second
)

func newHall(t *testing.T) *hall { return &hall{Passwords: NewPasswords(), t: t} }

// pass has the bubble's time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's time
}

// call hashes a password for somebody and reports whether it was refused.
func (h *hall) call(ctx context.Context, network int, of class) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := func() error {
		stay, err := h.enter(Digest{byte(network), byte(network >> 8)})
		if err != nil {
			return err
		}
		defer stay.leave()
		if err := stay.count(ctx, func() error { pass(h.counts); return nil }); err != nil {
			return err
		}
		return stay.hash(ctx, of, func() error {
			n := h.atWork.Add(1)
			h.maxAtWork.Store(max(n, h.maxAtWork.Load()))
			pass(aHash)
			h.atWork.Add(-1)
			return nil
		})
	}()
	switch f, ok := fault.As(err); {
	case err == nil:
		h.served.Add(1)
		return false
	case !ok || f.Kind != fault.Unavailable || f.Reason != fault.ServiceUnavailable || f.RetryAfter != retryAfter:
		h.t.Errorf("refused with %v", err)
	}
	h.refused.Add(1)
	return true
}

// empty reports whether nothing is kept of calls that have ended.
func (h *hall) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range []queue{h.count, h.hashes} {
		if l.atWork != [classes]int{} || len(l.waiting[known]) > 0 || len(l.waiting[strangers]) > 0 {
			return false
		}
	}
	return h.calls == 0 && len(h.networks) == 0
}

func TestTwoAreHashedAtATimeAndSoManyMoreWait(t *testing.T) {
	for of, maxWaiting := range NewPasswords().hashes.limit {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t)
			for network := range hashing + maxWaiting + 3 {
				go h.call(t.Context(), network, class(of))
			}
			synctest.Wait()
			if got := h.refused.Load(); got != 3 {
				t.Errorf("class %d: got %d refused, want 3", of, got)
			}
			pass(time.Hour)
			if got := h.served.Load(); int(got) != hashing+maxWaiting || h.maxAtWork.Load() != hashing {
				t.Errorf("class %d: got %d served, %d at a time, want %d, %d at a time", of, got, h.maxAtWork.Load(),
					hashing+maxWaiting, hashing)
			}
			if !h.empty() {
				t.Errorf("class %d: something is kept of calls that have ended", of)
			}
		})
	}
}

func TestCallsInsideAreBoundedInAllAndOfANetwork(t *testing.T) {
	p := NewPasswords()
	var stays []*seat
	for n := range inside + 1 {
		stay, err := p.enter(Digest{byte(n / ofANetwork), byte(n / ofANetwork >> 8), 1})
		if (err != nil) != (n == inside) {
			t.Fatalf("call %d: err != nil: got %t, want %t", n+1, err != nil, n == inside)
		}
		if err == nil {
			stays = append(stays, stay)
		}
	}
	stays[0].leave()
	if _, err := p.enter(Digest{1, 0, 1}); err == nil {
		t.Errorf("got the call %d of a network in, want it refused", ofANetwork+1)
	}
	if _, err := p.enter(Digest{2, 2, 2}); err != nil {
		t.Errorf("another network where one has left: %v", err)
	}
}

// Hundreds sign in at once from networks of their own, as often as they may. Who
// comes next from anywhere is served before them, at once.
func TestAFloodLeavesAPlaceToWhoComesNext(t *testing.T) {
	for name, of := range map[string]class{"a stranger": strangers, "from a known network": known} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHall(t)
				h.counts = aCount
				for n := range 600 {
					go h.call(t.Context(), n, strangers)
				}
				pass(10 * aHash)
				began := time.Now()
				if h.call(t.Context(), 1000, of) {
					t.Error("got refused, want served")
				}
				if took := time.Since(began); took > 2*(aCount+aHash) {
					t.Errorf("got served after %v, want %v at most", took, 2*(aCount+aHash))
				}
				pass(time.Hour)
			})
		})
	}
}

// Strangers come without end, ten times as many as can be served; somebody signs in
// from a known network.
func TestAFloodWithoutEndLeavesAPlaceToKnownNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				go h.call(ctx, n%60_000, strangers)
				pass(aHash / hashing / 10)
			}
		}()
		pass(time.Second)
		for n := range 20 {
			began := time.Now()
			if h.call(t.Context(), 61_000+n%3, known) {
				t.Error("got refused, want served")
			}
			if took := time.Since(began); took > 2*aHash {
				t.Errorf("got served after %v, want %v at most", took, 2*aHash)
			}
		}
		cancel()
		synctest.Wait()
		pass(time.Hour)
		if !h.empty() {
			t.Error("something is kept of calls that have ended")
		}
	})
}

// Strangers come without end as fast as attempts are counted, and some wait already. Somebody signs in
// from a known network, and two strangers come after each call that has waited.
func TestAFloodThatCountsPassesNobodyByForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 100
		h := newHall(t)
		h.counts = aCount
		ctx, cancel := context.WithCancel(t.Context())
		for n := range waiting {
			go h.call(ctx, n, strangers)
		}
		go func() {
			pass(aCount / 2)
			for n := waiting; ctx.Err() == nil; n += 2 {
				go h.call(ctx, n%60_000, strangers)
				go h.call(ctx, (n+1)%60_000, strangers)
				pass(aCount)
			}
		}()
		pass(100*aCount + aCount/4)
		began := time.Now()
		if h.call(t.Context(), 61_000, known) {
			t.Error("got refused, want served")
		}
		if took, most := time.Since(began), waiting*aCount+2*aHash; took > most {
			t.Errorf("got served after %v, want %v at most", took, most)
		}
		cancel()
		synctest.Wait()
		pass(time.Hour)
		if !h.empty() {
			t.Error("something is kept of calls that have ended")
		}
	})
}

// Known networks come without end; strangers keep one of the two places.
func TestAFloodOfKnownNetworksLeavesAPlaceToStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		for n := range knownWaiting + hashing {
			go h.call(t.Context(), n, known)
		}
		synctest.Wait()
		began := time.Now()
		if h.call(t.Context(), 1000, strangers) {
			t.Error("h.call(t.Context(), 1000, strangers): got true, want false")
		} else if time.Since(began) > 2*aHash {
			t.Errorf("a stranger: served: got %v, want at most %v", time.Since(began), 2*aHash)
		}
		pass(time.Hour)
	})
}

// The first call of each network comes before the second of any.
func TestOneNetworkTakesNobodyElsesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		for range 2 {
			go h.call(t.Context(), 1, strangers)
		}
		synctest.Wait()
		var patient atomic.Bool
		go func() {
			h.call(t.Context(), 2, strangers)
			patient.Store(true)
		}()
		synctest.Wait()
		for range 70 {
			go h.call(t.Context(), 1, strangers)
		}
		synctest.Wait()
		if got := h.refused.Load(); got != 72-ofANetwork {
			t.Errorf("got %d of 72 from one network refused, want %d", got, 72-ofANetwork)
		}
		pass(2*aHash + time.Millisecond)
		if !patient.Load() {
			t.Error("another network waits behind those that came later")
		}
		pass(time.Hour)
	})
}

func TestWhoWaitsForAPlaceTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		for range hashing {
			go h.call(t.Context(), 1, strangers)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), aHash/2)
		defer cancel()
		if !h.call(ctx, 2, strangers) {
			t.Error("got served without a place")
		}
		pass(aHash)
		if !h.empty() || h.served.Load() != hashing {
			t.Errorf("got %d served, want %d and nothing kept", h.served.Load(), hashing)
		}
	})
}

// A place that comes as its caller gives up is free again.
func TestAPlaceThatComesTooLateIsFreed(t *testing.T) {
	l := NewPasswords().hashes
	w := &waiter{turn: make(chan bool, 1)}
	l.join(known, w) // at work at once
	l.giveUp(known, w)
	if l.atWork != [classes]int{} {
		t.Errorf("got %v at work, want none", l.atWork)
	}
}
