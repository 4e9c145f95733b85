// Package house has the platform's own consumer accounts, which pay for hidden probes of
// providers.
//
// A hidden probe is an ordinary request with an ordinary key, so that a provider cannot
// tell it from a consumer's. Its account must therefore have real credit, from which its
// provider is paid as always. The verifier opens these accounts, funds them and makes
// their keys. It reaches no account of a consumer, because every call here refuses an
// account that is not a house account, and the database refuses its funding.
//
// Bounds: 256 accounts, 8 active keys for each, keys of at most 31 days, $1,000 at a time,
// and over all accounts the configured amount within any 24 hours, by the clock of the
// database.
package house

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// The bounds of house accounts.
const (
	MaxAccounts = 256
	MaxKeys     = 8
	MaxFunding  = 1_000 * money.USD
	MaxKeyLife  = 31 * 24 * time.Hour
)

// keyName is the name of every house key. Names of keys are shown to operators alone.
const keyName = "probes"

// Errors that a store returns. For an account that is no house account it returns
// account.ErrNotFound.
var (
	ErrTooMany = errors.New("there are too many house accounts")
	ErrSpent   = errors.New("the money for verification is spent")
)

// Store keeps house accounts.
type Store interface {
	// OpenHouseAccount opens a house account unless there are maxAccounts already. With a key
	// that was used for a house account of the same name it returns the first account.
	OpenHouseAccount(
		ctx context.Context, draft account.Draft, idempotencyKey string, maxAccounts int,
	) (ids.AccountID, error)
	// FundHouseAccount posts an entry that credits the account, unless all house accounts
	// together would be given more than daily within 24 hours. It returns the first
	// entry's id for a business id that was posted before, and the account's balance.
	FundHouseAccount(
		ctx context.Context, entry ledger.Entry, id ids.AccountID, amount, daily money.NanoUSD,
	) (ids.EntryID, money.NanoUSD, error)
	// IssueHouseKey keeps a new key unless its account already has maxKeys active keys.
	IssueHouseKey(ctx context.Context, k key.Key, maxKeys int) error
	// RevokeHouseKey ends a key of a house account for ever.
	RevokeHouseKey(ctx context.Context, id ids.KeyID) error
}

// Accounts answers the verifier.
type Accounts struct {
	Store    Store
	Accounts *account.Accounts
	Keys     *key.Keys
	Clock    clock.Clock
	Random   io.Reader
	// Daily is what all house accounts together may be given within 24 hours.
	Daily money.NanoUSD
}

// Open opens a house account without credit. A repeat returns the first account.
func (a *Accounts) Open(ctx context.Context, name, idempotencyKey string) (ids.AccountID, error) {
	draft, err := a.Accounts.Draft(name)
	if err != nil {
		return ids.AccountID{}, err
	}
	if err := checkKey(idempotencyKey); err != nil {
		return ids.AccountID{}, err
	}
	id, err := a.Store.OpenHouseAccount(ctx, draft, idempotencyKey, MaxAccounts)
	if err != nil {
		return ids.AccountID{}, a.explain(err, "open a house account")
	}
	return id, nil
}

// Fund gives a house account credit at the expense of verification, and returns the
// entry's id and the account's balance. A repeat returns the first entry.
func (a *Accounts) Fund(
	ctx context.Context, id ids.AccountID, amount money.NanoUSD, idempotencyKey string,
) (ids.EntryID, money.NanoUSD, error) {
	if amount <= 0 || amount > MaxFunding {
		return ids.EntryID{}, 0, fault.New(fault.Invalid, fault.InvalidValue,
			"amount_nano_usd must be above 0 and at most %d", MaxFunding).On("amount_nano_usd")
	}
	if err := checkKey(idempotencyKey); err != nil {
		return ids.EntryID{}, 0, err
	}
	entryID, err := ids.NewEntry(a.Clock.Now(), a.Random)
	if err != nil {
		return ids.EntryID{}, 0, fmt.Errorf("make an entry id: %w", err)
	}
	posted, balance, err := a.Store.FundHouseAccount(ctx,
		ledger.FundVerification(entryID, id, amount, idempotencyKey), id, amount, a.Daily)
	if err != nil {
		return ids.EntryID{}, 0, a.explain(err, "fund a house account")
	}
	return posted, balance, nil
}

// IssueKey makes a key of a house account and returns its text, which is not stored.
func (a *Accounts) IssueKey(ctx context.Context, id ids.AccountID, expires time.Time) (key.Key, string, error) {
	if expires.IsZero() || expires.After(a.Clock.Now().Add(MaxKeyLife)) {
		return key.Key{}, "", fault.New(fault.Invalid, fault.InvalidValue,
			"expires_at must be at most %d days ahead", MaxKeyLife/(24*time.Hour)).On("expires_at")
	}
	issued, text, err := a.Keys.Draft(key.IssueRequest{Account: id, Name: keyName, ExpiresAt: expires})
	if err != nil {
		return key.Key{}, "", err
	}
	if err := a.Store.IssueHouseKey(ctx, issued, MaxKeys); err != nil {
		return key.Key{}, "", a.explain(err, "issue a house key")
	}
	return issued, text, nil
}

// RevokeKey ends a key of a house account for ever.
func (a *Accounts) RevokeKey(ctx context.Context, id ids.KeyID) error {
	if err := a.Store.RevokeHouseKey(ctx, id); err != nil {
		return a.explain(err, "revoke a house key")
	}
	a.Keys.Announce(ctx, id)
	return nil
}

func checkKey(idempotencyKey string) error {
	if !account.ValidLabel(idempotencyKey, 1, account.MaxIdempotencyKey) {
		return fault.New(fault.Invalid, fault.InvalidValue, "idempotency_key must have 1 to %d printable characters",
			account.MaxIdempotencyKey).On("idempotency_key")
	}
	return nil
}

func (a *Accounts) explain(err error, attempted string) error {
	switch {
	case errors.Is(err, account.ErrNotFound), errors.Is(err, key.ErrAccountNotFound):
		return account.NotFound()
	case errors.Is(err, key.ErrNotFound):
		return key.NotFound()
	case errors.Is(err, account.ErrReused):
		return fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the idempotency key was used for something else").On("idempotency_key")
	case errors.Is(err, key.ErrTooMany):
		return fault.New(fault.Precondition, fault.TooManyKeys, "the account already has %d keys", MaxKeys)
	case errors.Is(err, ErrTooMany):
		return fault.New(fault.Exhausted, fault.TooManyAccounts, "there are %d house accounts already", MaxAccounts)
	case errors.Is(err, ErrSpent):
		return fault.New(fault.Exhausted, fault.VerificationBudgetSpent,
			"house accounts are given at most %s within 24 hours", a.Daily)
	case errors.Is(err, account.ErrCeiling):
		return fault.New(fault.Invalid, fault.InvalidValue,
			"amount_nano_usd would raise the balance above its bound").On("amount_nano_usd")
	default:
		return fmt.Errorf("%s: %w", attempted, err)
	}
}
