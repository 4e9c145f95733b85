package store

import (
	"testing"

	"svc.internal/pkg/pgtest"
)

func TestAProgramOfTheBaselineWorksOnThisSchema(t *testing.T) {
	t.Parallel()
	pgtest.CheckBaseline(t, Migrations, Role, Schema)
}
