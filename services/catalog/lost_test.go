package catalog

import (
	"testing"

	"svc.internal/pkg/pgtest"
)

func TestALostConnectionIsUnavailable(t *testing.T) {
	b := setup(t)
	pgtest.WantLost(t, b.pool, func() error {
		_, err := b.admin.PutModel(t.Context(), wish("test/plain"))
		return err
	})
}
