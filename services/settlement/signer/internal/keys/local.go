package keys

import (
	"context"
	"crypto/ecdsa"
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/internal/chain"
)

// local is a key in the memory of this process.
type local struct {
	private *ecdsa.PrivateKey
	address chain.Address
}

func newLocal(private *ecdsa.PrivateKey) *local {
	return &local{private, chain.Address(crypto.PubkeyToAddress(private.PublicKey))}
}

// Address implements Key.
func (l *local) Address() chain.Address { return l.address }

// Sign implements Key. The same digest has the same signature (RFC 6979).
func (l *local) Sign(_ context.Context, digest [32]byte) (signature [65]byte, err error) {
	out, err := crypto.Sign(digest[:], l.private)
	if err != nil {
		return signature, fmt.Errorf("sign with the key of %s: %w", l.address, err)
	}
	return [65]byte(out), nil
}

// String hides the key.
func (l *local) String() string { return "the key of " + l.address.String() }

// GoString hides the key.
func (l *local) GoString() string { return l.String() }
