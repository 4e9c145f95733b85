package provider

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"svc.internal/pkg/ids"
)

// Identity is by what a provider is known, without the value itself: a byte for the kind
// and the beginning of an HMAC of the value. Equal values of different providers have the
// same identity. Its key is derived from the pepper, so whoever lacks the pepper cannot
// test a value.
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

// Identities returns the identities of the accounts of providers, in the order of their
// kinds. Providers that are not known are left out.
func (d *Directory) Identities(
	ctx context.Context, providers []ids.ProviderID,
) (map[ids.ProviderID][]Identity, error) {
	known, err := d.store.KnownBy(ctx, providers)
	if err != nil {
		return nil, fmt.Errorf("read by what providers are known: %w", err)
	}
	secret := d.identitySecret()
	all := make(map[ids.ProviderID][]Identity, len(known))
	for id, by := range known {
		list := []Identity{}
		for _, part := range []struct {
			kind  byte
			value string
		}{{identityUser, by.User}, {identityWallet, by.Wallet}, {identityPayout, by.Payout}} {
			if part.value != "" {
				list = append(list, identityOf(secret, part.kind, []byte(part.value)))
			}
		}
		all[id] = list
	}
	return all, nil
}

// ReceiptKeyIdentity returns the identity of the key with which a node signs its work
// receipts. Nobody proves at registration that the key is theirs.
func (d *Directory) ReceiptKeyIdentity(key ed25519.PublicKey) Identity {
	return identityOf(d.identitySecret(), identityReceiptKey, key)
}

// identitySecret derives the secret of identities. It says nothing of the pepper.
func (d *Directory) identitySecret() []byte {
	mac := hmac.New(sha256.New, d.pepper[:])
	mac.Write([]byte("svc.internal/services/provider-hub: secret of identities"))
	return mac.Sum(nil)
}

func identityOf(secret []byte, kind byte, value []byte) Identity {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte{kind})
	mac.Write(value)
	id := Identity{kind}
	copy(id[1:], mac.Sum(nil))
	return id
}
