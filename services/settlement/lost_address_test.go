package settlement

import (
	"errors"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// A consumer may pay to an address that it was given in the lost hours. It must not be somebody else's by then.
func TestADepositAddressThatWasGivenAndLostIsNobodyElses(t *testing.T) {
	t.Parallel()
	l := newLosing(t, chain.Base)
	deriver, err := deposit.NewDeriver(xpub)
	must(t, err)
	address := func(account byte) (deposit.Address, error) {
		return store.Deposits{Store: l.store}.Address(t.Context(),
			ids.AccountID{0: 1, 6: 0x70, 8: 0x80, 15: account}, deriver.At)
	}
	given, err := address(1)
	must(t, err)
	l.until(t, l.want(t, 1, 100), payout.Confirmed)
	l.lose(t)
	if _, _, err := l.pipeline.Check(t.Context(), chain.Base, sending.Payout); !errors.Is(err, sending.ErrHalted) {
		t.Fatalf("the lost database: got the error %v, want %v", err, sending.ErrHalted)
	}
	if _, err := address(2); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("before it is adopted: got the error %v, want %s", err, fault.ServiceUnavailable)
	}
	l.adopt(t, adopt.Words{})
	second, err := address(2)
	must(t, err)
	if second.Address == given.Address {
		t.Errorf("the next account: got the lost address %s, want another one", given.Address)
	}
	third, err := address(3)
	must(t, err)
	if got, want := third.Index, second.Index+1; got != want {
		t.Errorf("the account behind it: got the index %d, want %d", got, want)
	}
	l.until(t, l.books.order[0], payout.Confirmed)
	l.sound(t)
	l.forge(t, `UPDATE deposit_address SET deposit_index = deposit_index + 10`)
	report, err := l.store.Audit(t.Context())
	must(t, err)
	if report.Drift != 1 {
		t.Errorf("verify of another gap: got a drift of %d, want 1", report.Drift)
	}
}
