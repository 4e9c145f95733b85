package store_test

import (
	"os"
	"testing"

	"svc.internal/pkg/pgtest"
)

func TestAChangeOfAFunctionComesWithAMigration(t *testing.T) {
	pgtest.CheckFunctions(t, os.DirFS("."))
}
