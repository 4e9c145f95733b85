package store_test

import (
	"testing"

	"svc.internal/pkg/acts/actstest"
	"svc.internal/services/billing-ledger/internal/store"
)

func TestActsOfOperatorsAreListedFromAnIndex(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	actstest.CheckLists(t, actstest.Service{Store: e.store, Owner: e.owner, Table: store.ActTable, Action: "grant_credit",
		Common: "0192f0c0-0000-7000-8000-000000000001", Rare: "0192f0c0-0000-7000-8000-000000000002"})
}
