package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/ids"
)

// Identity is by what a provider is known, without the value itself: a byte for the kind
// and the beginning of an HMAC of the value. Equal values of different providers have the
// same identity. Its key is derived from the fleet's first pepper, so whoever has none of the
// peppers cannot test a value.
type Identity [1 + identityDigest]byte

// identityDigest is how many bytes of the HMAC an identity has.
const identityDigest = 16

// The kinds of identities, as events.v1.Session has them. Identities are kept under them:
// they stay.
const (
	identityUser       byte = 1
	identityWallet     byte = 2
	identityPayout     byte = 3
	identityReceiptKey byte = 4
)

// KnownBy is by what an account is known; each part is empty for none.
type KnownBy struct {
	User string
	// Wallet is the address of a wallet that has signed. A claim that no wallet has signed
	// is no identity, because it costs nothing to claim another's.
	Wallet string
	// Payout is the address to which earnings go.
	Payout string
}

// identityStore is what identities need of a store.
type identityStore interface {
	// KnownBy reads by what providers are known.
	KnownBy(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]KnownBy, error)
}

func identityOf(secret []byte, kind byte, value []byte) Identity {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte{kind})
	mac.Write(value)
	id := Identity{kind}
	copy(id[1:], mac.Sum(nil))
	return id
}

// IdentitySecret derives the secret of identities from the first pepper of a fleet. The secret says
// nothing of the pepper.
func IdentitySecret(first apikey.Pepper) []byte {
	mac := hmac.New(sha256.New, first[:])
	mac.Write([]byte("svc.internal/services/provider-hub: secret of identities"))
	return mac.Sum(nil)
}
