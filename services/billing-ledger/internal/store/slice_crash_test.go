//go:build crashpoints

package store_test

import (
	"testing"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/audit"
)

func TestTheAuditFindsAPinThatTookNothingFromItsSlice(t *testing.T) {
	t.Setenv(crash.EnvPlant, crash.PinWithoutSlice)
	e := setup(t, unlimited)
	o, c := e.sliceOwner(t), e.consumer(t, 100*money.USD)
	if err := e.store.WritePins(t.Context(), o.pins(t, c, o.opens(t, c, 20), 3)); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	if !named(report, "wallet.held is the sum of open holds and slices", c.account.String()) {
		t.Errorf("drift: got %+v, want the account's wallet", report.Invariants)
	}
}
