package store_test

import (
	"os"
	"testing"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/signer/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestAProgramOfTheBaselineWorksOnThisSchema(t *testing.T) {
	t.Parallel()
	pgtest.CheckBaseline(t, store.Migrations, store.Role, store.Schema)
}

func TestAChangeOfAFunctionComesWithAMigration(t *testing.T) {
	pgtest.CheckFunctions(t, os.DirFS("."))
}
