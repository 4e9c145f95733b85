package store_test

import (
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

func TestFiguresCountWhatIsOpenAndNothingElse(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	first, second := e.reservation(t, c, 3), e.reservation(t, c, 5)
	e.admitOne(t, first, hold.Admitted)
	e.admitOne(t, second, hold.Admitted)
	e.release(t, first.Request)
	got, err := e.store.Figures(t.Context(), retention)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case got.OpenHolds != 1:
		t.Errorf("OpenHolds: got %d, want 1", got.OpenHolds)
	case got.Held != second.Amount:
		t.Errorf("Held: got %v, want %v", got.Held, second.Amount)
	case got.OldestHold < 0:
		t.Errorf("OldestHold: got %v, want at least 0", got.OldestHold)
	case got.Reviews != 0:
		t.Errorf("Reviews: got %d, want 0", got.Reviews)
	}
	e.release(t, second.Request)
	switch got, err := e.store.Figures(t.Context(), retention); {
	case err != nil:
		t.Errorf("of a ledger at rest: got the error %v, want none", err)
	case got.OpenHolds != 0:
		t.Errorf("of a ledger at rest: OpenHolds: got %d, want 0", got.OpenHolds)
	case got.Held != 0:
		t.Errorf("of a ledger at rest: Held: got %v, want 0", got.Held)
	case got.OldestHold != 0:
		t.Errorf("of a ledger at rest: OldestHold: got %v, want 0", got.OldestHold)
	}
}
