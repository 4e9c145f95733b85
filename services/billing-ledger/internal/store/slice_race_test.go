package store_test

import (
	"sync"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

// An owner admits whatever its slice has, while others ask the exact path and have the slice closed.
func TestSlicesAndTheExactPathTogetherNeverOverspend(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	const credit = 400
	o, c := e.sliceOwner(t), e.consumer(t, credit*cent)
	var (
		mu    sync.Mutex // the owner's: one turn at a time
		state slice.State
		all   sync.WaitGroup
	)
	// turn admits what the slice has, at 3 cents each, and writes it with a turn that may end the slice.
	turn := func(end bool) (admitted int) {
		mu.Lock()
		defer mu.Unlock()
		next := slice.Turn{Account: c.account, Epoch: state.Epoch, Want: 20 * cent, Places: 100, Close: end}
		for left := state.Amount; left >= 3*cent; left -= 3 * cent {
			next.Pins = append(next.Pins, o.pins(t, c, state, 3)...)
		}
		state = o.turn(t, next)[0]
		return len(next.Pins)
	}
	counts := make([]int, 5)
	all.Go(func() {
		for range 60 {
			counts[0] += turn(false)
		}
	})
	for i := range counts[1:] {
		all.Go(func() {
			for range 60 {
				v, err := e.store.Admit(t.Context(), []hold.Reservation{e.reservation(t, c, 2)})
				if _, ok := hold.AsSliceOpen(err); ok {
					counts[i+1] += turn(true)
				} else if err != nil {
					t.Error(err)
				} else if v[0].Outcome == hold.Admitted {
					counts[i+1]++
				}
			}
		})
	}
	all.Wait()
	counts[0] += turn(true)
	total := 0
	for _, n := range counts {
		total += n
	}
	if n := scan[int](t, e, `SELECT count(*) FROM hold WHERE amount > 0`); n != total {
		t.Errorf("holds with their amount: got %d, want all %d that were admitted", n, total)
	}
	if posted, held := e.wallet(t, c); held > posted || held < posted-money.USD {
		t.Errorf("held: got %v, want nearly all of %v", held, posted)
	}
	e.sound(t)
}
