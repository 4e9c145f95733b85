package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// maxListedKeys bounds a list of keys: all that are good and the latest of those
// that are not.
const maxListedKeys = 200

// OwnKey is what a provider sees of a key of its own.
type OwnKey struct {
	ID          ids.KeyID
	Name, Shown string
	MadeAt      time.Time
	// Expires is when it ends since another one followed it, Revoked when it was
	// ended at once; zero for never.
	Expires, Revoked time.Time
}

// Good reports whether the key may still be shown.
func (k OwnKey) Good(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || k.Expires.After(now))
}

// keyStore is what a provider's own list of keys needs of a store.
type keyStore interface {
	// Keys lists keys of a provider, those that are good first and of each the newest
	// first.
	Keys(ctx context.Context, id ids.ProviderID, now time.Time, limit int) ([]OwnKey, error)
	// RevokeOwnKey ends a key of a provider, unless it has ended, if allow lets it:
	// allow is told how many others of the provider are good and do not expire, while
	// none can be made or ended. It fails with key_not_found and provider_not_found.
	RevokeOwnKey(ctx context.Context, id ids.ProviderID, key ids.KeyID, now time.Time, allow func(a Account, lasting int) error) error
}

// OwnKeys lists a provider's keys. It fails with provider_not_found.
func (d *Directory) OwnKeys(ctx context.Context, id ids.ProviderID) ([]OwnKey, error) {
	if _, err := d.store.Get(ctx, id); err != nil {
		return nil, err
	}
	return d.store.Keys(ctx, id, d.clock.Now(), maxListedKeys)
}

// RevokeOwnKey ends a key of a provider for ever; a second time changes nothing. So
// that nobody shuts the own machines out, one that does not expire has to be left,
// unless a wallet is proven that connects without. It fails with key_not_found,
// transition_not_allowed and provider_not_found.
func (d *Directory) RevokeOwnKey(ctx context.Context, id ids.ProviderID, key ids.KeyID) error {
	return d.store.RevokeOwnKey(ctx, id, key, d.clock.Now(), func(a Account, lasting int) error {
		if lasting == 0 && a.OwnerProvenAt.IsZero() {
			return fault.New(fault.Precondition, fault.TransitionNotAllowed,
				"this is the last key that does not expire: make another one and give it to the machines first")
		}
		return nil
	})
}
