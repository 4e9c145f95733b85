package slice

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestAnAdmissionIsWrittenByTheNextTurn(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 70)
		if got := b.Waiting(); got != 1 {
			t.Errorf("got %d unwritten requests, want 1", got)
		}
		pass(t, Every)
		h := b.world.holds[pin.Request]
		if h == nil {
			t.Fatal("got no hold, want one")
		}
		same(t, "amount of the hold", h.amount, 70)
		same(t, "the hold is open", h.open, true)
		if got := b.Waiting(); got != 0 {
			t.Errorf("got %d unwritten requests, want none", got)
		}
		if full := b.account.keys[b.key].full[limit.LLM-1]; !full.After(time.Now().Add(-Every)) {
			t.Errorf("the key's rate is full at %v, want it moved on", full)
		}
	})
}

func TestATurnUnderWayDoesNotKeepRequestsWaiting(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		b.world.latency = 50 * time.Millisecond
		began := time.Now()
		pins := []hold.Pin{b.admit(t, 1)}
		_ = clock.Sleep(t.Context(), Every+time.Millisecond) // now a turn is under way
		now := time.Now()
		pins = append(pins, b.admit(t, 1))
		if !time.Now().Equal(now) {
			t.Errorf("got a wait of %v, want none", time.Since(now))
		}
		pass(t, 4*Every)
		for i, p := range pins {
			if b.world.holds[p.Request] == nil {
				t.Errorf("request %d after %v: got no hold, want one", i, time.Since(began))
			}
		}
	})
}

func TestAnIdleSliceLivesByItsHeartbeat(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		taken := b.spy.taken()
		pass(t, idleAfter-Every)
		if got := b.spy.taken() - taken; got != 1 {
			t.Errorf("got %d turns in %v, want one heartbeat", got, idleAfter-Every)
		}
	})
}

func TestPinsAreWrittenByTheNextTurn(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		mine := []hold.Pin{b.admit(t, 1), b.admit(t, 2)}
		other := hold.Pin{Request: ids.RequestID{1}, Account: b.account.id, Epoch: 99}
		foreign := hold.Pin{Request: ids.RequestID{2}, Account: ids.AccountID{9}}
		began, taken := time.Now(), b.spy.taken()
		if err := b.Write(t.Context(), append(mine, other, foreign)); err != nil {
			t.Fatal(err)
		}
		same(t, "turns", b.spy.taken()-taken, 1)
		if took := time.Since(began); took > Every {
			t.Errorf("got a turn after %v, want one within %v", took, Every)
		}
		same(t, "holds", b.holds(mine...), len(mine))
		if want := []hold.Pin{other, foreign}; !slices.Equal(b.written, want) {
			t.Errorf("from the writer: got %+v, want the pins of others %+v", b.written, want)
		}
		if err := b.Write(t.Context(), mine); err != nil {
			t.Errorf("again: got the error %v, want none", err)
		}
		same(t, "turns after the pins came again", b.spy.taken()-taken, 1)
		same(t, "pins from the writer after they came again", len(b.written), 2)
	})
}

func TestAPinThatAClientWaitsForHasATurnAtOnce(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 1)
		began := time.Now()
		if err := b.WriteNow(t.Context(), []hold.Pin{pin}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a turn: got one after %v, want one at once", took)
		}
		if b.world.holds[pin.Request] == nil {
			t.Error("got no hold, want one")
		}
	})
}

func TestManyPinsThatAreAwaitedHaveATurnAtOnce(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 10_000
		b.open(t)
		for range 2 * enough / 8 { // until the slice has places for so many
			for range 8 {
				b.admit(t, 1)
			}
			pass(t, Every)
		}
		var pins []hold.Pin
		for range enough {
			pins = append(pins, b.admit(t, 1))
		}
		began := time.Now()
		if err := b.Write(t.Context(), pins); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a turn for %d pins: got one after %v, want one at once", enough, took)
		}
	})
}

func TestASteadyFlowSharesRegularTurns(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 10_000
		b.open(t)
		var awaited sync.WaitGroup
		flow := func(d time.Duration) { // 480 requests a second, whose usage follows them
			for range d / (50 * time.Millisecond) {
				pins := make([]hold.Pin, 0, 24)
				for range cap(pins) {
					pins = append(pins, b.admit(t, 1))
				}
				awaited.Go(func() {
					if err := b.Write(t.Context(), pins); err != nil {
						t.Error(err)
					}
				})
				pass(t, 50*time.Millisecond)
			}
		}
		flow(5 * time.Second) // until the slice has places for so many
		taken := b.spy.taken()
		flow(2 * time.Second)
		same(t, "turns in 2 s", b.spy.taken()-taken, 10)
		awaited.Wait()
	})
}

func TestAPinThatCannotBeWrittenIsAnErrorAndStays(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		pin := b.admit(t, 1)
		b.spy.set(func() { b.spy.fail = func([]Turn) error { return errLost } })
		if err := b.Write(t.Context(), []hold.Pin{pin}); !errors.Is(err, errLost) {
			t.Errorf("got the error %v, want %v", err, errLost)
		}
		b.spy.set(func() { b.spy.fail = nil })
		pass(t, 2*Every)
		if b.world.holds[pin.Request] == nil {
			t.Error("when turns succeed again: got no hold, want one")
		}
	})
}

func TestOneSliceThatCannotBeWrittenDoesNotKeepTheOthersFromIt(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.open(t)
		bad, key := b.account.id, b.key
		var others []hold.Pin
		for n := range byte(8) {
			b.account = b.world.addWallet(10+n, money.USD, 100, 6000, 1)
			b.key = ids.KeyID{14: 10 + n, 15: 1}
			b.open(t)
			others = append(others, b.admit(t, 1))
		}
		b.key = key
		b.admit(t, 1)
		b.spy.set(func() {
			b.spy.fail = func(turns []Turn) error {
				for _, turn := range turns {
					if turn.Account == bad && len(turn.Pins) > 0 {
						return errLost
					}
				}
				return nil
			}
		})
		pass(t, Trust+2*Every)
		for i, p := range others {
			if b.world.holds[p.Request] == nil {
				t.Errorf("account %d: got no hold, want one", i)
			}
		}
	})
}
