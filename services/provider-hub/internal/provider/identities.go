package provider

import (
	"context"
	"crypto/ed25519"
	"fmt"

	"svc.internal/pkg/ids"
)

// Identities returns the identities of the accounts of providers, in the order of their
// kinds. Providers that are not known are left out.
func (d *Directory) Identities(
	ctx context.Context, providers []ids.ProviderID,
) (map[ids.ProviderID][]Identity, error) {
	known, err := d.store.KnownBy(ctx, providers)
	if err != nil {
		return nil, fmt.Errorf("read by what providers are known: %w", err)
	}
	all := make(map[ids.ProviderID][]Identity, len(known))
	for id, by := range known {
		list := []Identity{}
		for _, part := range []struct {
			kind  byte
			value string
		}{{identityUser, by.User}, {identityWallet, by.Wallet}, {identityPayout, by.Payout}} {
			if part.value != "" {
				list = append(list, identityOf(d.secrets.Identities, part.kind, []byte(part.value)))
			}
		}
		all[id] = list
	}
	return all, nil
}

// ReceiptKeyIdentity returns the identity of the key with which a node signs its work
// receipts. Nobody proves at registration that the key is theirs.
func (d *Directory) ReceiptKeyIdentity(key ed25519.PublicKey) Identity {
	return identityOf(d.secrets.Identities, identityReceiptKey, key)
}
