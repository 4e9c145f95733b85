package development_test

import (
	"path/filepath"
	"testing"

	"svc.internal/services/settlement/signer/development"
	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/policy"
)

func TestAddressesAreThoseOfTheKeysThatSign(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seed")
	addresses, err := development.Addresses(path)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := keys.OpenSeed(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range policy.Keys() {
		if name == policy.Deposit {
			continue
		}
		key, err := seed.Key(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := addresses[string(name)], key.Address(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got, want := len(addresses), len(policy.Keys())-1; got != want {
		t.Errorf("got %d addresses, want %d", got, want)
	}
}
