package store_test

import (
	"testing"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/verifier/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestAProgramOfTheBaselineWorksOnThisSchema(t *testing.T) {
	t.Parallel()
	pgtest.CheckBaseline(t, store.Migrations, store.Role, store.Schema)
}
