package store_test

import (
	"testing"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/billing-ledger/internal/store"
)

func TestAProgramOfTheBaselineWorksOnThisSchema(t *testing.T) {
	t.Parallel()
	pgtest.CheckBaseline(t, store.Migrations, store.Role, store.Schema, "kept")
}
