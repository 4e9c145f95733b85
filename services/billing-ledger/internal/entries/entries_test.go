package entries

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// reads are balances that a store is asked for.
type reads struct {
	n    int
	fail error
}

func (r *reads) Balances(context.Context) ([]Balance, time.Time, error) {
	r.n++
	return []Balance{
		{Account: ledger.Bank, Asset: ledger.USD, Amount: -3},
		{Account: ledger.Available, Asset: ledger.USD, Amount: money.NanoUSD(2 + r.n)},
	}, time.Now(), r.fail
}

func TestATrialBalanceIsReadOnceAMinuteHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reads{fail: errors.New("away")}
		trials := NewTrials(store, clock.System)
		if _, err := trials.Trial(t.Context()); !errors.Is(err, store.fail) {
			t.Errorf("the store is away: got the error %v, want %v", err, store.fail)
		}
		store.n, store.fail = 0, nil
		for range 3 {
			trial, err := trials.Trial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !trial.Balanced() {
				t.Errorf("the totals: got %+v, want zero", trial.Totals)
			}
			if got := trial.Balances[0].Account; got != ledger.Bank {
				t.Errorf("the first account: got %s, want %s", got, ledger.Bank)
			}
		}
		if store.n != 1 {
			t.Errorf("reads within a minute: got %d, want 1", store.n)
		}
		time.Sleep(goodFor) //nolint:forbidigo // of a synctest bubble
		trial, err := trials.Trial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if trial.Balanced() {
			t.Errorf("after a minute: got %+v, want another reading, which does not balance", trial.Totals)
		}
	})
}

func TestACursorReadsAsThePlaceThatItWasMadeOf(t *testing.T) {
	want := Place{At: time.Date(2026, 11, 29, 1, 2, 3, 456_000, time.UTC), ID: ids.EntryID{1, 2, 3}}
	got, err := readCursor(writeCursor(want))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
