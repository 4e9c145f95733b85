package keys

import (
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/signer/internal/keys/seed"
	"svc.internal/services/settlement/signer/internal/policy"
)

// Seed is what development keys are made of. They are for chains on which money is worth
// nothing.
type Seed seed.Seed

// String hides the seed.
func (Seed) String() string { return "a seed" }

// GoString hides the seed.
func (Seed) GoString() string { return "a seed" }

// OpenSeed returns the seed in a file. It makes the file first if there is none.
func OpenSeed(path string) (Seed, error) {
	s, err := seed.Open(path)
	return Seed(s), err
}

// Key returns the development key of a name.
func (s Seed) Key(name policy.Key) (Key, error) {
	// A digest is no scalar of the curve once in 2^128 times.
	private, err := crypto.ToECDSA(seed.Seed(s).Private(string(name)))
	if err != nil {
		return nil, fmt.Errorf("derive the development key %s: %w", name, err)
	}
	return newLocal(private), nil
}

// Deposit returns the development keys of the deposit addresses.
func (s Seed) Deposit() (*Deposit, error) { return newDeposit(seed.Seed(s).Deposit()) }
