package slice

import (
	"errors"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// lock has turns of an account fail after trial, as while somebody holds the lock on its wallet.
func (b *bundle) lock(t *testing.T, account ids.AccountID) {
	b.spy.set(func() {
		b.spy.fail = func(turns []Turn) error {
			if !slices.ContainsFunc(turns, func(one Turn) bool { return one.Account == account }) {
				return nil
			}
			return errors.Join(errLost, clock.Sleep(t.Context(), trial))
		}
	})
}

// busyAccount adds the account n, and has the owner see that it is busy.
func (b *bundle) busyAccount(n byte) ids.AccountID {
	account := b.world.addWallet(n, money.USD, 100, 6000, 1).id
	for range busy {
		b.Saw(b.requestOf(n, 10), hold.Decision{Outcome: hold.Admitted,
			Admission: hold.Admission{Account: account, Billing: hold.PayAsYouGo}})
	}
	return account
}

func (b *bundle) requestOf(n byte, amount money.NanoUSD) hold.Reservation {
	r := b.request(amount)
	r.Key = ids.KeyID{14: n, 15: 1}
	return r
}

func TestAccountsThatBecomeBusyPutNoTurnOff(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 10_000
		b.open(t)
		refused := 0
		for n := range byte(100) { // each before the next turn
			b.busyAccount(2 + n)
			pass(t, Every/2)
			if _, _, ok := b.Admit(t.Context(), b.request(1)); !ok {
				refused++
			}
		}
		if refused > 0 {
			t.Errorf("requests of an account with a slice that are in doubt: got %d, want 0", refused)
		}
	})
}

func TestAWalletThatSomebodyLocksCostsTheOthersNoTrust(t *testing.T) {
	setup(t, func(t *testing.T, b *bundle) {
		b.account.maxOpen = 10_000
		b.open(t)
		for range 10 { // until the slice has places for two seconds
			b.admit(t, 1)
			b.admit(t, 1)
			b.admit(t, 1)
			pass(t, Every)
		}
		b.lock(t, b.busyAccount(2))
		refused := 0
		for range 10 * int(time.Second/Every) {
			if _, _, ok := b.Admit(t.Context(), b.request(1)); !ok {
				refused++
			}
			pass(t, Every)
		}
		if refused > 0 {
			t.Errorf("requests of the other account that are in doubt: got %d, want 0", refused)
		}
		b.spy.set(func() { b.spy.fail = nil })
	})
}
