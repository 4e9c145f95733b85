package providerhub_test

import (
	"testing"

	"svc.internal/pkg/pgtest"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestALostConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	pgtest.WantLost(t, w.db, func() error {
		_, err := w.hub.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{})
		return err
	})
}
