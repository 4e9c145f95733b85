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
	if got.OpenHolds != 1 || got.Held != second.Amount || got.OldestHold < 0 || got.Reviews != 0 {
		t.Errorf("%+v, want one hold of %v", got, second.Amount)
	}
	e.release(t, second.Request)
	if got, err := e.store.Figures(t.Context(), retention); err != nil || got.OpenHolds != 0 || got.Held != 0 ||
		got.OldestHold != 0 {
		t.Errorf("of a ledger at rest: %+v, %v", got, err)
	}
}
