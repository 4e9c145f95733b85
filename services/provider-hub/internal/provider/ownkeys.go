package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// maxListedKeys bounds a list of keys: all good keys, and the latest of the others.
const maxListedKeys = 200

// OwnKey is a key as its provider sees it.
type OwnKey struct {
	ID          ids.KeyID
	Name, Shown string
	MadeAt      time.Time
	// Expires is when the key ends because another one follows it, and Revoked when it
	// was ended at once; zero for never.
	Expires, Revoked time.Time
	// Used is when the key was last shown, exact to usedEvery; zero for never.
	Used time.Time
}

// Good reports whether the key may still be shown.
func (k OwnKey) Good(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || k.Expires.After(now))
}

// keyStore is what a provider's own list of keys needs of a store.
type keyStore interface {
	// Keys lists keys of a provider: the good keys first, and the newest of each first.
	Keys(ctx context.Context, id ids.ProviderID, now time.Time, limit int) ([]OwnKey, error)
	// KeyUsed notes that a good key was shown.
	KeyUsed(ctx context.Context, id ids.KeyID, at time.Time) error
	// RevokeOwnKey ends a key of a provider, unless it has ended, if allow returns nil.
	// allow is given the number of the provider's other keys that are good and do not
	// expire. Meanwhile no key can be made or ended. RevokeOwnKey fails with
	// key_not_found and provider_not_found.
	RevokeOwnKey(ctx context.Context, id ids.ProviderID, key ids.KeyID, now time.Time,
		allow func(a Account, lasting int) error) error
}

const (
	// usedEvery is how exact the last use of a key is. A key that agents show often is written that seldom.
	usedEvery = 10 * time.Minute
	// usedWait is how long a look-up waits for the note, whose row others may have locked.
	usedWait = 500 * time.Millisecond
)

// used notes that a good key was shown. The key is good either way, so a note that fails is left to the next use.
func (d *Directory) used(ctx context.Context, c Credential) {
	now := d.clock.Now()
	if c.Revoked || now.Sub(c.Used) < usedEvery {
		return
	}
	soon, stop := context.WithTimeout(ctx, usedWait)
	defer stop()
	_ = d.store.KeyUsed(soon, c.KeyID, now) // the next use is noted
}

// OwnKeys lists a provider's keys. It fails with provider_not_found.
func (d *Directory) OwnKeys(ctx context.Context, id ids.ProviderID) ([]OwnKey, error) {
	if _, err := d.store.Get(ctx, id); err != nil {
		return nil, err
	}
	return d.store.Keys(ctx, id, d.clock.Now(), maxListedKeys)
}

// RevokeOwnKey ends a key of a provider for ever. A second call changes nothing. The last
// key that does not expire stays, so that nobody shuts out the provider's own machines,
// unless the account has a proven wallet, which connects without a key. RevokeOwnKey
// fails with key_not_found, transition_not_allowed and provider_not_found.
func (d *Directory) RevokeOwnKey(ctx context.Context, id ids.ProviderID, key ids.KeyID) error {
	return d.store.RevokeOwnKey(ctx, id, key, d.clock.Now(), func(a Account, lasting int) error {
		if lasting == 0 && a.OwnerProvenAt.IsZero() {
			return fault.New(fault.Precondition, fault.TransitionNotAllowed,
				"this is the last key that does not expire: make another one and give it to the machines first")
		}
		return nil
	})
}
