// Package provider keeps the accounts of providers and their keys: who may
// connect, under which name, and whether they serve consumers.
//
// A key is shown once, when it is issued; what is kept is the peppered hash of
// its digest. A status changes only along the table in status.go, and every
// change leaves an audit line. Names are 1 to 64 printable characters, regions
// at most 32; a page lists at most 200 accounts.
package provider

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

const (
	maxName        = 64
	maxRegion      = 32
	maxIdempotency = 128
	maxPage        = 1_000_000
	// DefaultPageSize is the length of a page when none is asked for.
	DefaultPageSize = 50
	// MaxPageSize bounds a page.
	MaxPageSize = 200
)

// Account is a provider.
type Account struct {
	ID        ids.ProviderID
	Name      string
	Status    Status
	Region    string
	CreatedAt time.Time
}

// Key is what is kept of a provider key.
type Key struct {
	ID       ids.KeyID
	Provider ids.ProviderID
	Name     string
	Hash     apikey.Hash
	Shown    string
}

// Credential is what the store knows of the key an agent showed. Epoch is
// fresh with every look-up.
type Credential struct {
	Account
	KeyID   ids.KeyID
	Revoked bool
	Epoch   int64
}

// Standing is the present state of a key that some session was made with.
type Standing struct {
	KeyID   ids.KeyID
	Revoked bool
	Status  Status
}

// Store keeps accounts and keys.
type Store interface {
	// Create adds an account; with an idempotency key that was used before it
	// returns the account of that time instead.
	Create(ctx context.Context, a Account, idempotencyKey string) (Account, error)
	// Get reads an account, or provider_not_found.
	Get(ctx context.Context, id ids.ProviderID) (Account, error)
	// List is one page, oldest first, and how many there are in all.
	List(ctx context.Context, offset, limit int) ([]Account, int, error)
	// Move applies a trigger in one transaction and notes the change.
	Move(ctx context.Context, id ids.ProviderID, t Trigger) (Account, error)
	// AddKey keeps a key, or answers provider_not_found.
	AddKey(ctx context.Context, k Key) error
	// RevokeKey ends a key, or answers key_not_found.
	RevokeKey(ctx context.Context, id ids.KeyID) error
	// Credential looks a key up and draws an epoch; ok is false when nobody
	// has that key.
	Credential(ctx context.Context, hash apikey.Hash) (c Credential, ok bool, err error)
	// Standings reads the state of many keys; unknown ones are left out.
	Standings(ctx context.Context, keys []ids.KeyID) ([]Standing, error)
}

// Directory is the accounts of all providers. It is safe for concurrent use.
type Directory struct {
	store  Store
	pepper apikey.Pepper
	clock  clock.Clock
	random io.Reader
}

// NewDirectory returns the accounts that store keeps.
func NewDirectory(store Store, pepper apikey.Pepper, c clock.Clock, random io.Reader) *Directory {
	return &Directory{store: store, pepper: pepper, clock: c, random: random}
}

// Create opens an account in status pending. The same idempotency key returns
// the first account; with another name it is idempotency_key_reused.
func (d *Directory) Create(ctx context.Context, name, region, idempotencyKey string) (Account, error) {
	if err := checkText("name", name, 1, maxName); err != nil {
		return Account{}, err
	}
	if err := checkText("region", region, 0, maxRegion); err != nil {
		return Account{}, err
	}
	if err := checkText("idempotency_key", idempotencyKey, 0, maxIdempotency); err != nil {
		return Account{}, err
	}
	now := d.clock.Now()
	id, err := ids.NewProvider(now, d.random)
	if err != nil {
		return Account{}, err
	}
	want := Account{ID: id, Name: name, Status: Pending, Region: region, CreatedAt: now}
	got, err := d.store.Create(ctx, want, idempotencyKey)
	if err != nil {
		return Account{}, err
	}
	if got.Name != name || got.Region != region {
		return Account{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the idempotency key was used for another provider").On("idempotency_key")
	}
	return got, nil
}

// Get reads one account. It fails with provider_not_found.
func (d *Directory) Get(ctx context.Context, id ids.ProviderID) (Account, error) {
	return d.store.Get(ctx, id)
}

// Page is one page of accounts.
type Page struct {
	List           []Account
	Total          int
	Number, Length int
}

// List is a page, oldest first. Pages count from 1; 0 stands for the first
// page and for the default length.
func (d *Directory) List(ctx context.Context, number, length int) (Page, error) {
	if number < 0 || number > maxPage {
		return Page{}, fault.New(fault.Invalid, fault.InvalidValue, "page is out of range").On("page")
	}
	if length < 0 || length > MaxPageSize {
		return Page{}, fault.New(fault.Invalid, fault.InvalidValue, "page_size is at most %d", MaxPageSize).On("page_size")
	}
	number = max(number, 1)
	if length == 0 {
		length = DefaultPageSize
	}
	list, total, err := d.store.List(ctx, (number-1)*length, length)
	if err != nil {
		return Page{}, err
	}
	return Page{List: list, Total: total, Number: number, Length: length}, nil
}

// SetStatus moves an account to a status; the same one again changes nothing.
// It fails with provider_not_found or transition_not_allowed.
func (d *Directory) SetStatus(ctx context.Context, id ids.ProviderID, to Status) (Account, error) {
	t, ok := TriggerFor(to)
	if !ok {
		return Account{}, fault.New(fault.Invalid, fault.InvalidValue, "status is none of pending, active, suspended").On("status")
	}
	return d.store.Move(ctx, id, t)
}

// IssueKey makes a key and returns its text, which nothing keeps.
func (d *Directory) IssueKey(ctx context.Context, id ids.ProviderID, name string) (Key, string, error) {
	if err := checkText("name", name, 0, maxName); err != nil {
		return Key{}, "", err
	}
	text, err := apikey.Generate(apikey.Provider, d.random)
	if err != nil {
		return Key{}, "", err
	}
	keyID, err := ids.NewKey(d.clock.Now(), d.random)
	if err != nil {
		return Key{}, "", err
	}
	k := Key{ID: keyID, Provider: id, Name: name, Hash: d.pepper.Hash(apikey.Sum(text)), Shown: apikey.Shown(text)}
	if err := d.store.AddKey(ctx, k); err != nil {
		return Key{}, "", err
	}
	return k, text, nil
}

// RevokeKey ends a key for ever. It fails with key_not_found.
func (d *Directory) RevokeKey(ctx context.Context, id ids.KeyID) error {
	return d.store.RevokeKey(ctx, id)
}

// Authenticate answers whose key an agent showed, with a fresh epoch. It fails
// with invalid_api_key, key_revoked or, for a suspended provider, with
// account_frozen. Text that cannot be a provider key costs no look-up.
func (d *Directory) Authenticate(ctx context.Context, key string) (Credential, error) {
	if prefix, ok := apikey.Parse(key); !ok || prefix != apikey.Provider {
		return Credential{}, invalidKey()
	}
	c, ok, err := d.store.Credential(ctx, d.pepper.Hash(apikey.Sum(key)))
	switch {
	case err != nil:
		return Credential{}, fmt.Errorf("look up a provider key: %w", err)
	case !ok:
		return Credential{}, invalidKey()
	case c.Revoked:
		return Credential{}, fault.New(fault.Unauthenticated, fault.KeyRevoked, "this provider key was revoked")
	case c.Status == Suspended:
		return Credential{}, fault.New(fault.Denied, fault.AccountFrozen, "this provider is suspended")
	}
	return c, nil
}

// Standings reads what became of keys that sessions were made with.
func (d *Directory) Standings(ctx context.Context, keys []ids.KeyID) ([]Standing, error) {
	return d.store.Standings(ctx, keys)
}

func invalidKey() error {
	return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "this is no provider key")
}

func checkText(field, text string, low, high int) error {
	n := utf8.RuneCountInString(text)
	if !utf8.ValidString(text) || n < low || n > high || strings.TrimSpace(text) != text || strings.ContainsFunc(text, unprintable) {
		return fault.New(fault.Invalid, fault.InvalidValue, "%s must be %d to %d printable characters", field, low, high).On(field)
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
