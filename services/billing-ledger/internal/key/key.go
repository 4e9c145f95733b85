// Package key issues, recognises, rotates and revokes consumer keys. A key's text is shown
// once, when it is issued. Only its peppered hash is kept.
//
// A user makes and changes the keys of the user's own account, and a key of another account
// does not exist for that user. Rotation gives a key another text: the key stays the same, so
// settings, limits and revocation are those of both texts while the old one still works.
package key

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Bounds of what an operator may ask for.
const (
	maxName        = 64 // characters
	maxModels      = 100
	maxModelLength = 255 // bytes
)

// Key is a consumer key as it is stored.
type Key struct {
	ID      ids.KeyID
	Account ids.AccountID
	Name    string
	// Prefix is the part of the text that may be shown.
	Prefix string
	Hash   apikey.Stored
	// Models are the models that the key may use; none means every model.
	Models []string
	// ExpiresAt is zero for a key that does not expire. Of a key that was found by its old
	// text it is when that text stops working.
	ExpiresAt time.Time
	// IncludeUsage shows the usage of answers with its cost, also where a request does not ask.
	IncludeUsage bool
	// Budget is what the key may spend; nil for all that the account has.
	Budget *limit.Budget
	// Priority reports whether requests of the account wait ahead of others for a provider.
	Priority bool
	Revoked  bool
	// Expired is decided by the store's clock, which admission uses too.
	Expired bool
}

// Errors that a store returns.
var (
	ErrNotFound        = errors.New("no such key")
	ErrAccountNotFound = errors.New("no such account")
	ErrTooMany         = errors.New("the account has too many keys")
	ErrUnconfirmed     = errors.New("the account's user has not confirmed its e-mail")
	ErrEnded           = errors.New("the key is revoked or has expired")
	ErrOverlap         = errors.New("the old text of the key still works")
)

// Store keeps keys.
type Store interface {
	// IssueKey keeps a new key unless its account already has most active keys.
	IssueKey(ctx context.Context, k Key, maxKeys int) error
	// RevokeKey ends a key for ever and reports whether it did so now.
	RevokeKey(ctx context.Context, id ids.KeyID) (now bool, err error)
	// KeyByHash finds a key by one or two hashes of its text, or of its old text. Hash of the key is
	// the one by which it was found.
	KeyByHash(ctx context.Context, hashes [][]byte) (Key, error)
	// RenewHash puts a hash of the same text in the place of another. It changes nothing when that
	// hash has left its place, or the key is revoked.
	RenewHash(ctx context.Context, id ids.KeyID, from apikey.Hash, to apikey.Stored) error
}

// Keys answers operators and gateways.
type Keys struct {
	Store   Store
	Peppers apikey.Peppers
	Clock   clock.Clock
	Random  io.Reader
	// MaxKeys bounds the active keys of an account.
	MaxKeys int
	// Announce tells the gateways that a key has changed. A gateway that it does not
	// reach forgets the key when its cache is too old.
	Announce func(context.Context, ids.KeyID)
	// RenewFailed is called for each hash that could not be renewed. It may be nil.
	RenewFailed func()
}

// IssueRequest asks for a key.
type IssueRequest struct {
	Account   ids.AccountID
	Name      string
	Models    []string
	ExpiresAt time.Time
	// IncludeUsage and Budget are as in Key.
	IncludeUsage bool
	Budget       *limit.Budget
}

// Draft makes a key that is not stored yet, and its text, which never is.
func (k *Keys) Draft(o IssueRequest) (Key, string, error) {
	if err := o.validate(k.Clock.Now()); err != nil {
		return Key{}, "", err
	}
	text, err := apikey.Generate(apikey.Consumer, k.Random)
	if err != nil {
		return Key{}, "", fmt.Errorf("make a key: %w", err)
	}
	id, err := ids.NewKey(k.Clock.Now(), k.Random)
	if err != nil {
		return Key{}, "", fmt.Errorf("make a key id: %w", err)
	}
	return Key{
		ID: id, Account: o.Account, Name: o.Name, Prefix: apikey.Shown(text),
		Hash: k.Peppers.Hash(apikey.Sum(text)), Models: o.Models, ExpiresAt: o.ExpiresAt,
		IncludeUsage: o.IncludeUsage, Budget: o.Budget,
	}, text, nil
}

// Issue makes a key and returns its text, which is not stored.
func (k *Keys) Issue(ctx context.Context, o IssueRequest) (Key, string, error) {
	issued, text, err := k.Draft(o)
	if err != nil {
		return Key{}, "", err
	}
	if err := k.Store.IssueKey(ctx, issued, k.MaxKeys); err != nil {
		return Key{}, "", k.explain(err, "store the key")
	}
	return issued, text, nil
}

func (o IssueRequest) validate(now time.Time) error {
	invalid := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
	}
	if !account.ValidLabel(o.Name, 0, maxName) {
		return invalid("name", "must have at most %d printable characters", maxName)
	}
	if len(o.Models) > maxModels {
		return invalid("allowed_model_ids", "must have at most %d entries", maxModels)
	}
	for _, m := range o.Models {
		if len(m) > maxModelLength || !account.ValidLabel(m, 1, maxModelLength) {
			return invalid("allowed_model_ids", "must be model ids of 1 to %d bytes", maxModelLength)
		}
	}
	if !o.ExpiresAt.IsZero() && !o.ExpiresAt.After(now) {
		return invalid("expires_at", "must be in the future")
	}
	if o.Budget != nil {
		return o.Budget.Validate()
	}
	return nil
}

// Revoke ends a key for ever. Requests under way finish and are charged. A repeat is
// announced again, which makes up for an announcement that was lost.
func (k *Keys) Revoke(ctx context.Context, id ids.KeyID) error {
	if _, err := k.Store.RevokeKey(ctx, id); errors.Is(err, ErrNotFound) {
		return NotFound()
	} else if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	k.Announce(ctx, id)
	return nil
}

// NotFound is the error for a key that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, fault.KeyNotFound, "there is no such key").On("key_id")
}

// tagPurpose keeps account tags apart from everything else that is hashed under the
// pepper.
const tagPurpose = "svc account tag v1 "

// AccountTag names an account to routers and hubs, which see only which requests are of
// one account. It is the first 8 bytes of a digest under the current pepper. While replicas are
// restarted with another pepper, an account has two tags.
func (k *Keys) AccountTag(id ids.AccountID) []byte {
	tag := k.Peppers.Hash(apikey.Sum(tagPurpose + id.String())).Hash
	return tag[:8]
}

// renewWait is how long a call waits for the renewal of a hash, whose row others may have locked.
const renewWait = 500 * time.Millisecond

// Authenticate finds a key by the digest of its text. A hash of an older pepper is renewed.
func (k *Keys) Authenticate(ctx context.Context, digest apikey.Digest) (Key, error) {
	found, err := k.Store.KeyByHash(ctx, k.Peppers.Hashes(digest))
	switch {
	case errors.Is(err, ErrNotFound):
		return Key{}, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "the API key is not valid")
	case err != nil:
		return Key{}, fmt.Errorf("look up key: %w", err)
	case found.Revoked:
		return Key{}, fault.New(fault.Unauthenticated, fault.KeyRevoked, "the API key has been revoked")
	case found.Expired:
		return Key{}, fault.New(fault.Unauthenticated, fault.KeyExpired, "the API key has expired")
	}
	if to, due := k.Peppers.Renewed(digest, found.Hash); due {
		// The key is good either way. A hash that is not renewed now is counted as one of the older
		// pepper, and the next call tries again.
		soon, stop := context.WithTimeout(ctx, renewWait)
		defer stop()
		if k.Store.RenewHash(soon, found.ID, found.Hash.Hash, to) != nil && k.RenewFailed != nil {
			k.RenewFailed()
		}
	}
	return found, nil
}

// explain returns the fault of an error of the store.
func (k *Keys) explain(err error, attempted string) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return NotFound()
	case errors.Is(err, ErrAccountNotFound):
		return fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account").On("account_id")
	case errors.Is(err, ErrTooMany):
		return fault.New(fault.Precondition, fault.TooManyKeys,
			"the account has as many keys as it may: %d, and as many that ended within a day", k.MaxKeys)
	case errors.Is(err, ErrUnconfirmed):
		return fault.New(fault.Denied, fault.EmailNotConfirmed,
			"an account has one key until its user confirms the e-mail address (POST /api/v1/user/me/email asks for the "+
				"letter) or, if the user has no e-mail address, until the account has paid")
	case errors.Is(err, ErrEnded):
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the key is revoked or has expired").On("key_id")
	case errors.Is(err, ErrOverlap):
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"the old text of the key still works; a rotation without old_works_until ends it at once").On("old_works_until")
	}
	return fmt.Errorf("%s: %w", attempted, err)
}
