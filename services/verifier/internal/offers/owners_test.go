package offers_test

import (
	"testing"

	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/offers"
)

func TestTwoReferencesOfOneWalletHaveOneOwner(t *testing.T) {
	t.Parallel()
	v := offers.New()
	wallet := identity.Identity{byte(identity.Wallet), 1}
	one, two, third := reference(1, "a", "fp16"), reference(2, "b", "fp16"), reference(3, "c", "fp16")
	one.Identities, two.Identities = []identity.Identity{wallet}, []identity.Identity{wallet}
	v.Apply(delta("h", 1, one, two, third), start)
	if got, want := offers.Owners(v.References("m")).Len(), 2; got != want {
		t.Errorf("owners: got %d, want %d", got, want)
	}
}

func TestIdentitiesThatChangeAreTakenOver(t *testing.T) {
	t.Parallel()
	v := offers.New()
	s := reference(1, "a", "fp16")
	v.Apply(delta("h", 1, s), start)
	s.Identities = []identity.Identity{{byte(identity.Payout), 1}}
	v.Apply(delta("h", 2, s), start)
	if got, want := len(v.References("m")[0].Identities), 1; got != want {
		t.Errorf("identities: got %d, want %d", got, want)
	}
}
