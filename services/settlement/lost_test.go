package settlement

import (
	"testing"

	"svc.internal/pkg/pgtest"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

func TestALostConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pgtest.WantLost(t, b.pool, func() error {
		_, err := b.penaltyAdmin.ListAllPenalties(t.Context(), &settlementv1.ListAllPenaltiesRequest{})
		return err
	})
}
