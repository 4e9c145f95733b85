package billingledger_test

import (
	"testing"

	"svc.internal/pkg/pgtest"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

func TestALostConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.consumer(t, "")
	pgtest.WantLost(t, f.db, func() error {
		_, err := f.accounts.GetAccount(t.Context(), &billingv1.GetAccountRequest{AccountId: c.account})
		return err
	})
}
