package store_test

import (
	"errors"
	"sync"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// owned makes a provider whose owner owns the account of c.
func (e *env) owned(t testing.TB, c consumer) ids.ProviderID {
	t.Helper()
	provider := newProvider(t)
	if _, err := e.owner.Exec(t.Context(),
		`INSERT INTO app_user (id, email, display_name, password_hash, account_id, provider_id)
		VALUES (gen_random_uuid(), $1::uuid || '@x', '', '$argon2id$v=19$m=1', $1, $2)`, [16]byte(c.account),
		[16]byte(provider)); err != nil {
		t.Fatal(err)
	}
	return provider
}

// servedBy is the usage of ten cents, of which the provider gets seven.
func (e *env) servedBy(t testing.TB, reservation hold.Reservation, provider ids.ProviderID) usage.Delivery {
	t.Helper()
	d := e.served(t, reservation, 10)
	d.Event.Provider = provider
	return d
}

// Hostile test 40: usage that comes to all replicas at once is held once.
func TestReplicasHoldAnOwnersEarningsOnce(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	provider := e.owned(t, c)
	claims := []hold.Reservation{e.reservation(t, c, 10), e.reservation(t, c, 10), e.reservation(t, c, 10)}
	e.admit(t, claims...)
	var batch []usage.Delivery
	for _, reservation := range claims {
		batch = append(batch, e.servedBy(t, reservation, provider))
	}
	var callers sync.WaitGroup
	for _, replica := range e.replicas(t, 3, nil) {
		callers.Go(func() {
			if _, err := (&usage.Settler{Store: replica}).Settle(t.Context(), batch, nil); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if n, sum := scan[int](t, e, `SELECT count(*) FROM held_earning`), scan[int64](t, e,
		`SELECT sum(payout)::bigint FROM held_earning`); n != 3 {
		t.Errorf("scan[int](…): got %d, want 3", n)
	} else if money.NanoUSD(sum) != 21*cent {
		t.Errorf("sum: got %v, want %v", money.NanoUSD(sum), 21*cent)
	}
	e.sound(t)
}

// Hostile test 40: orphan work has no charge that could be refunded, so it is
// taken back by undoing its entry.
func TestUndoingOrphanWorkEndsWhatIsHeldOfIt(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	provider := e.owned(t, c)
	claims := []hold.Reservation{e.reservation(t, c, 10), e.reservation(t, c, 10)}
	e.admit(t, claims...)
	e.release(t, claims[0].Request, claims[1].Request)
	for _, reservation := range claims {
		e.settle(t, usage.Orphaned, e.servedBy(t, reservation, provider))
	}
	batch, err := ledger.EarningsBatch(newFact(t), provider, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.store.Post(t.Context(), batch); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a batch: got the error %v, want %v", err, ledger.ErrHeld)
	}
	if _, err := e.store.Reverse(t.Context(), entryID(t), ids.EntryID(claims[0].Request), "self-dealing"); err != nil {
		t.Fatal(err)
	}
	left, err := e.store.HeldEarnings(t.Context(), provider, ids.RequestID{}, 10)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(left) != 1:
		t.Errorf("held: len(left): got %d, want 1, in %v", len(left), left)
	case left[0].Request != claims[1].Request:
		t.Errorf("held: left[0].Request: got %v, want %v", left[0].Request, claims[1].Request)
	}
	if got := scan[string](t, e, `SELECT ended_as FROM held_earning WHERE ended_as IS NOT NULL`); got != string(
		earning.Reversed) {
		t.Errorf("it ended: got %q, want %q", got, string(earning.Reversed))
	}
	if got := e.balance(t, ledger.Accrued, provider); got != 7*cent {
		t.Errorf("accrued: got %v, want %v", got, 7*cent)
	}
	e.sound(t)
}

// The auditor looks at balances by itself, and not at what kept them.
func TestVerifyFindsHeldEarningsThatWereTaken(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	provider := e.owned(t, c)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	e.settle(t, usage.Settled, e.servedBy(t, reservation, provider))
	e.sound(t)
	e.exec(t, `UPDATE held_earning SET payout = payout + 1`)
	found, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	report := map[string]int64{}
	for _, i := range found.Invariants {
		report[i.Name] = i.Drift
	}
	for _, name := range []string{"what is held of earnings has not been taken",
		"what is held was earned by its request"} {
		if report[name] != 1 {
			t.Errorf("%s: drift: got %d, want 1", name, report[name])
		}
	}
}

// What is free of a balance is the same whether its days are sealed or not.
func TestHeldEarningsOfSealedDaysStayHeld(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	provider := e.owned(t, c)
	claims := []hold.Reservation{e.reservation(t, c, 10), e.reservation(t, c, 10)}
	e.admit(t, claims...)
	e.settle(t, usage.Settled, e.servedBy(t, claims[0], provider))
	e.pushBack(t, 2)
	e.sealDue(t)
	e.settle(t, usage.Settled, e.servedBy(t, claims[1], provider))
	batch := func(amount money.NanoUSD) error {
		t.Helper()
		entry, err := ledger.EarningsBatch(newFact(t), provider, amount, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.store.Post(t.Context(), entry)
		return err
	}
	if err := batch(1); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a batch of what is held: got the error %v, want %v", err, ledger.ErrHeld)
	}
	for i, reservation := range claims {
		if _, err := e.store.ReleaseHeld(t.Context(), []ids.RequestID{reservation.Request}, "looked at"); err != nil {
			t.Fatal(err)
		}
		if err := batch(7 * cent); err != nil {
			t.Errorf("a batch of release %d: %v", i, err)
		}
	}
	e.sound(t)
}

// Once nothing of a provider is held any more, or ever was, its balance is its
// batches' own matter again.
func TestNothingIsKeptOfWhomNothingIsHeld(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	provider := e.owned(t, c)
	reservation := e.reservation(t, c, 10)
	e.admit(t, reservation)
	e.settle(t, usage.Settled, e.servedBy(t, reservation, provider))
	for _, of := range []ids.ProviderID{newProvider(t), provider} {
		entry, err := ledger.EarningsBatch(newFact(t), of, 9*cent, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.store.Post(t.Context(), entry); errors.Is(err, ledger.ErrHeld) != (of == provider) {
			t.Errorf("provider %s: got %t, want %t", of, errors.Is(err, ledger.ErrHeld), of == provider)
		}
	}
}
