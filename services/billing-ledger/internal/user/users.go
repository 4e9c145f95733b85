package user

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
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/oidc"
)

// Users answers gateways.
type Users struct {
	Store    Store
	Families FamilyStore
	Letters  LetterStore
	// Identities keeps how users sign in without a password, and Wallets the challenges of
	// wallets.
	Identities IdentityStore
	Wallets    *Wallets
	Passwords  *Passwords
	Accounts   *account.Accounts
	Keys       *key.Keys
	Peppers    apikey.Peppers
	Clock      clock.Clock
	Random     io.Reader
	// Lookups are the places for calls that need no password.
	Lookups *limit.Semaphore
	// OpenID signs users in at OpenID providers, where there are any.
	OpenID *oidc.Client
	// SendsLetters reports whether the installation sends letters.
	SendsLetters bool
	// ObserveReuse is told of a refresh token that was used twice; nil for nobody.
	ObserveReuse func(context.Context, ID, FamilyID)
}

// SignedIn is a user with a token, which is shown this once.
type SignedIn struct {
	User      User
	Token     Token
	ExpiresAt time.Time
	Family    FamilyID
	// Opened reports that the user came by an identity for the first time.
	Opened bool
	// Refresh is the zero token when nobody asked for one.
	Refresh          Token
	RefreshExpiresAt time.Time
}

// Get finds a user.
func (u *Users) Get(ctx context.Context, id ID) (found User, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		found, err = u.Store.UserByID(ctx, id)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return User{}, NotFound()
	}
	if err != nil {
		return User{}, fmt.Errorf("look up a user: %w", err)
	}
	return found, nil
}

// LinkProvider stores that a user owns a provider account. Storing the same again changes
// nothing.
func (u *Users) LinkProvider(ctx context.Context, id ID, provider ids.ProviderID) (linked User, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		linked, err = u.Store.LinkProvider(ctx, id, provider)
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return User{}, NotFound()
	case errors.Is(err, ErrOwnsAnother), errors.Is(err, ErrProviderTaken):
		return User{}, fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed,
			"the user or the provider account is linked to another").On("provider_id")
	case err != nil:
		return User{}, fmt.Errorf("link provider: %w", err)
	}
	return linked, nil
}
