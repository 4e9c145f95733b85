package key

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
)

// MaxOverlap bounds how long the old text of a rotated key works.
const MaxOverlap = 7 * 24 * time.Hour

// Bounds of a page of keys.
const (
	MaxPage     = 200
	defaultPage = 100
)

// Settings are what a user decides about a key.
type Settings struct {
	Name string
	// Models are ids of the catalog; none allows every model.
	Models []string
	// ExpiresAt is zero for never.
	ExpiresAt    time.Time
	IncludeUsage bool
	// Budget is nil for none.
	Budget *limit.Budget
}

// Owned is a key as its owner sees it.
type Owned struct {
	Key
	CreatedAt time.Time
	// RevokedAt is zero for a key that is not revoked, UsedAt for a key that no request ended of.
	RevokedAt, UsedAt time.Time
	// OldPrefix is the prefix of the old text, which works until OldUntil; empty when none does.
	OldPrefix string
	OldUntil  time.Time
	// Spending is that of the key's budget; nil without one.
	Spending *limit.Spending
}

// Secret is the stored form of a key's text.
type Secret struct {
	Prefix string
	Hash   apikey.Stored
}

// OwnStore keeps keys for the accounts that own them. A key of another account is ErrNotFound.
type OwnStore interface {
	// MakeKey is IssueKey for a key that its owner makes: ErrUnconfirmed when the account has
	// a key and a user whose e-mail is not confirmed.
	MakeKey(ctx context.Context, k Key, maxKeys int) (Owned, error)
	// KeysOf lists up to limit keys of an account, the newest first, that are older than the
	// given key; revoked ones are listed where they are asked for.
	KeysOf(ctx context.Context, account ids.AccountID, before ids.KeyID, revoked bool, limit int) ([]Owned, error)
	KeyOf(ctx context.Context, account ids.AccountID, id ids.KeyID) (Owned, error)
	// ChangeKey replaces the settings of a key: ErrEnded when it is revoked, ErrTooMany when it
	// has expired and the account has as many others as it may.
	ChangeKey(ctx context.Context, account ids.AccountID, id ids.KeyID, s Settings, maxKeys int) (Owned, error)
	// RotateKey gives a key another text; the old one works until then, which is zero for not at
	// all: ErrEnded, ErrOverlap.
	RotateKey(ctx context.Context, account ids.AccountID, id ids.KeyID, to Secret, until time.Time) (Owned, error)
	// RevokeKeyOf ends a key for ever.
	RevokeKeyOf(ctx context.Context, account ids.AccountID, id ids.KeyID) (Owned, error)
}

// Own answers the users to whose accounts keys belong.
type Own struct {
	*Keys
	Store OwnStore
	// KnownModel fails for a model that the catalog does not have.
	KnownModel func(id string) error
}

// Make makes a key for its owner and returns its text, which is not stored.
func (k *Own) Make(ctx context.Context, account ids.AccountID, s Settings) (Owned, string, error) {
	if err := k.known(s.Models); err != nil {
		return Owned{}, "", err
	}
	draft, text, err := k.Draft(s.request(account))
	if err != nil {
		return Owned{}, "", err
	}
	made, err := k.Store.MakeKey(ctx, draft, k.MaxKeys)
	if err != nil {
		return Owned{}, "", k.explain(err, "store the key")
	}
	return made, text, nil
}

func (s Settings) request(account ids.AccountID) IssueRequest {
	return IssueRequest{Account: account, Name: s.Name, Models: s.Models, ExpiresAt: s.ExpiresAt,
		IncludeUsage: s.IncludeUsage, Budget: s.Budget}
}

// known refuses models that the catalog does not have.
func (k *Own) known(models []string) error {
	for i, m := range models[:min(len(models), maxModels+1)] {
		err := k.KnownModel(m)
		if fault.Is(err, fault.ModelNotFound) {
			return fault.New(fault.Invalid, fault.InvalidValue, "allowed_model_ids[%d] must be the id of a model", i).On(
				"allowed_model_ids")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// List returns a page of an account's keys, the newest first, and the cursor of the next page,
// which is empty after the last. A page of no size has the default size.
func (k *Own) List(
	ctx context.Context, account ids.AccountID, cursor string, revoked bool, size int,
) (page []Owned, next string, err error) {
	if size == 0 {
		size = defaultPage
	}
	if size < 1 || size > MaxPage {
		return nil, "", fault.New(fault.Invalid, fault.InvalidValue, "page_size must be between 1 and %d", MaxPage).On(
			"page_size")
	}
	var before ids.KeyID
	if cursor != "" {
		if before, err = ids.ParseKey(cursor); err != nil {
			return nil, "", fault.New(fault.Invalid, fault.InvalidValue, "cursor must be the next_cursor of a page").On("cursor")
		}
	}
	page, err = k.Store.KeysOf(ctx, account, before, revoked, size+1)
	if err != nil {
		return nil, "", fmt.Errorf("list keys: %w", err)
	}
	if len(page) > size {
		page = page[:size]
		next = page[size-1].ID.String()
	}
	return page, next, nil
}

// Get reads a key of an account.
func (k *Own) Get(ctx context.Context, account ids.AccountID, id ids.KeyID) (Owned, error) {
	found, err := k.Store.KeyOf(ctx, account, id)
	if err != nil {
		return Owned{}, k.explain(err, "read the key")
	}
	return found, nil
}

// Change replaces the settings of a key. A model that the key names already may have left the
// catalog since.
func (k *Own) Change(ctx context.Context, account ids.AccountID, id ids.KeyID, s Settings) (Owned, error) {
	if err := s.request(account).validate(k.Clock.Now()); err != nil {
		return Owned{}, err
	}
	had, err := k.Get(ctx, account, id)
	if err != nil {
		return Owned{}, err
	}
	if err := k.known(without(s.Models, had.Models)); err != nil {
		return Owned{}, err
	}
	changed, err := k.Store.ChangeKey(ctx, account, id, s, k.MaxKeys)
	if err != nil {
		return Owned{}, k.explain(err, "change the key")
	}
	k.Announce(ctx, id)
	return changed, nil
}

// without returns the members of all that are not in some.
func without(all, some []string) []string {
	had := make(map[string]bool, len(some))
	for _, m := range some {
		had[m] = true
	}
	var rest []string
	for _, m := range all {
		if !had[m] {
			rest = append(rest, m)
		}
	}
	return rest
}

// Rotate gives a key another text and returns it. The old text works until then; with the zero
// time no old text works any more. A lost answer is mended by a rotation without overlap.
func (k *Own) Rotate(
	ctx context.Context, account ids.AccountID, id ids.KeyID, until time.Time,
) (Owned, string, error) {
	now := k.Clock.Now()
	if !until.IsZero() && (!until.After(now) || until.After(now.Add(MaxOverlap))) {
		return Owned{}, "", fault.New(fault.Invalid, fault.InvalidValue,
			"old_works_until must be in the future, and at most 7 days ahead").On("old_works_until")
	}
	text, err := apikey.Generate(apikey.Consumer, k.Random)
	if err != nil {
		return Owned{}, "", fmt.Errorf("make a key: %w", err)
	}
	to := Secret{Prefix: apikey.Shown(text), Hash: k.Peppers.Hash(apikey.Sum(text))}
	rotated, err := k.Store.RotateKey(ctx, account, id, to, until)
	if err != nil {
		return Owned{}, "", k.explain(err, "rotate the key")
	}
	k.Announce(ctx, id)
	return rotated, text, nil
}

// RevokeOwn is Revoke for a key of an account.
func (k *Own) RevokeOwn(ctx context.Context, account ids.AccountID, id ids.KeyID) (Owned, error) {
	revoked, err := k.Store.RevokeKeyOf(ctx, account, id)
	if err != nil {
		return Owned{}, k.explain(err, "revoke the key")
	}
	k.Announce(ctx, id)
	return revoked, nil
}
