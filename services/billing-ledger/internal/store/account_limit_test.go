package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
)

// keysOf is a consumer once for each of n keys of one account.
func (e *env) keysOf(t *testing.T, n int, credit money.NanoUSD) []consumer {
	t.Helper()
	all := []consumer{e.consumer(t, credit)}
	for range n - 1 {
		k, _, err := e.keys.Issue(t.Context(), key.IssueRequest{Account: all[0].account})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, consumer{account: all[0].account, key: k.ID})
	}
	return all
}

// Whoever has four keys has what one key has.
func TestAnAccountsConcurrencyHoldsForAllOfItsKeysTogether(t *testing.T) {
	e := setup(t, unlimited)
	keys := e.keysOf(t, 4, 10*money.USD)
	if _, err := e.accounts.SetLimits(t.Context(), keys[0].account, limit.Limits{ConcurrentRequests: 3}); err != nil {
		t.Fatal(err)
	}
	var admitted atomic.Int64
	var open sync.Map
	var callers sync.WaitGroup
	for _, c := range keys {
		for range 5 {
			reservation := e.reservation(t, c, 1)
			callers.Go(func() {
				verdicts, err := e.store.Admit(context.WithoutCancel(t.Context()), []hold.Reservation{reservation})
				switch {
				case err != nil:
					t.Error(err)
				case verdicts[0].Outcome == hold.Admitted:
					admitted.Add(1)
					open.Store(reservation.Request, reservation)
				case verdicts[0].Outcome != hold.TooManyOpen:
					t.Errorf("got %s, want %s", verdicts[0].Outcome, hold.TooManyOpen)
				}
			})
		}
	}
	callers.Wait()
	if admitted.Load() != 3 {
		t.Errorf("got %d requests of four keys under way, want the account's 3", admitted.Load())
	}
	// One batch with claims of all keys.
	var batch []hold.Reservation
	for _, c := range keys {
		batch = append(batch, e.reservation(t, c, 1))
	}
	open.Range(func(_, claim any) bool {
		if _, _, err := e.store.Conclude(t.Context(), []hold.RequestReport{{Request: claim.(hold.Reservation).Request,
			Outcome: "refused", Attempts: []hold.Attempt{}}}); err != nil {
			t.Fatal(err)
		}
		return true
	})
	verdicts, err := e.store.Admit(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range verdicts {
		if v.Outcome == hold.Admitted {
			n++
		}
	}
	if n != 3 {
		t.Errorf("got %d of a batch of four keys admitted, want 3", n)
	}
	// What is under way with a key that is revoked still counts.
	if _, err := e.store.RevokeKey(t.Context(), keys[1].key); err != nil {
		t.Fatal(err)
	}
	if v, err := e.store.Admit(t.Context(), []hold.Reservation{e.reservation(t, keys[0], 1)}); err != nil ||
		v[0].Outcome != hold.TooManyOpen {
		t.Errorf("after a key was revoked: got %v and %v, want %s", v, err, hold.TooManyOpen)
	}
}

func TestAnAccountsRateOfZeroPricedModelsHoldsForAllOfItsKeysTogether(t *testing.T) {
	limits := unlimited
	limits.ZeroPricedPerMinute = 10
	e := setup(t, limits)
	keys := e.keysOf(t, 4, money.USD)
	outcomes := map[hold.Outcome]int{}
	for range 3 {
		var batch []hold.Reservation
		for _, c := range keys {
			batch = append(batch, e.free(t, c))
		}
		verdicts, err := e.store.Admit(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			outcomes[v.Outcome]++
		}
	}
	if outcomes[hold.Admitted] != 10 || outcomes[hold.RateLimited] != 2 {
		t.Errorf("got %v of 12 requests of four keys, want 10 admitted and 2 rate limited", outcomes)
	}
	if left, err := e.store.ReadRate(t.Context(), keys[3].key, limit.ZeroPriced); err != nil || left.Remaining != 0 ||
		left.Limit != 10 {
		t.Errorf("got %+v and %v to be left, want nothing of 10", left, err)
	}
	e.rest(t, 6*time.Second)
	if v, err := e.store.Admit(t.Context(), []hold.Reservation{e.free(t, keys[2])}); err != nil ||
		v[0].Outcome != hold.Admitted {
		t.Errorf("a tenth of a minute later: got %v and %v, want it admitted", v, err)
	}
}
