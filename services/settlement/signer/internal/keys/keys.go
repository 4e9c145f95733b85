// Package keys has the keys of the chain-signer, behind one interface: keys in files, keys
// of a development seed, the keys of deposit addresses, and, in package kms, keys that never
// leave AWS KMS. A key signs a digest. Only package signer, which has composed the digest
// itself, calls it.
//
// No key, seed or passphrase is ever printed: the types have no text, and errors name files
// and key names alone.
package keys

import (
	"context"

	"svc.internal/services/settlement/internal/chain"
)

// Key is one key of secp256k1.
type Key interface {
	// Address returns the account of the key.
	Address() chain.Address
	// Sign returns r, s and the recovery id, 0 or 1. s is the lower of the two.
	Sign(ctx context.Context, digest [32]byte) (signature [65]byte, err error)
}
