package store

import (
	"testing"

	"svc.internal/pkg/acts/actstest"
)

func TestActsOfOperatorsAreListedFromAnIndex(t *testing.T) {
	t.Parallel()
	r := setup(t)
	actstest.CheckLists(t, actstest.Service{Store: r.store, Owner: r.owner, Table: actTable, Action: "put_model",
		Common: "a/common", Rare: "a/rare"})
}
