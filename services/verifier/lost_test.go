package verifier

import (
	"testing"

	"svc.internal/pkg/pgtest"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

func TestALostConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Probes = false })
	pgtest.WantLost(t, b.pool, func() error {
		_, err := b.self.ListChallenges(t.Context(), &verifierv1.ListChallengesRequest{ProviderId: provider(0).String()})
		return err
	})
}
