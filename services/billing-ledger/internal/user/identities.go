package user

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/kin"
)

// enter signs in the user of an identity. Where there is none and open is set, it opens a user
// with a consumer account, and returns the text of the account's first key, which is not stored.
// It fails with user_not_found where open is not set, invalid_credentials for a proof that was
// used, and rate_limit_exceeded.
func (u *Users) enter(ctx context.Context, who proven, open bool, from From) (in SignedIn, keyText string, err error) {
	family, in, err := u.begin(from)
	if err != nil {
		return SignedIn{}, "", err
	}
	var ends Ends
	comeIn := func() (err error) {
		in.User, ends, err = u.Identities.Enter(ctx, Entry{who.Identity, who.proof, family})
		return err
	}
	err = u.Lookups.Do(ctx, func() (err error) {
		if err = comeIn(); !errors.Is(err, ErrNotFound) || !open {
			return err
		}
		in.User, ends, keyText, err = u.openBy(ctx, who, family)
		if errors.Is(err, ErrIdentityTaken) { // by another sign-in, a moment ago
			return comeIn()
		}
		in.Opened = err == nil
		return err
	})
	if err != nil {
		return SignedIn{}, "", ofIdentity(err, "sign in by an identity")
	}
	in.ExpiresAt, in.RefreshExpiresAt = ends.Token, ends.Refresh
	return in, keyText, nil
}

// openBy opens a user who signs in by an identity.
func (u *Users) openBy(ctx context.Context, who proven, family NewFamily) (User, Ends, string, error) {
	fail := func(err error) (User, Ends, string, error) { return User{}, Ends{}, "", err }
	o, err := u.draft(Opening{}, who.account)
	if err != nil {
		return fail(err)
	}
	o.Identity, o.Proof, o.Family = who.Identity, who.proof, family
	if o.IdentityID, err = ids.New[identityKind](u.Clock.Now(), u.Random); err != nil {
		return fail(fmt.Errorf("make the id of an identity: %w", err))
	}
	var keyText string
	if !who.keyless {
		o.Key, keyText, err = u.Keys.Draft(key.IssueRequest{Account: o.Account.ID, Name: firstKey})
	}
	if err != nil {
		return fail(err)
	}
	opened, ends, err := u.Store.OpenUser(ctx, o)
	if err != nil {
		return fail(err)
	}
	return opened, ends, keyText, nil
}

// link gives a user who is signed in a further identity. The user's e-mail gets a letter. Where
// letters are sent the e-mail must be confirmed, so that nobody who signs up with the e-mail of
// another links a wallet before the other comes. It fails with already_exists for the identity of
// another user, invalid_credentials for a proof that was used, email_not_confirmed,
// fresh_sign_in_required, transition_not_allowed for one identity too many or one wallet more than
// may ever be linked, and rate_limit_exceeded.
func (u *Users) link(ctx context.Context, id ID, family FamilyID, who proven) (linked OwnedIdentity, err error) {
	l := Link{User: id, Family: family, Identity: who.Identity, Proof: who.proof, OnlyConfirmed: u.SendsLetters}
	if l.ID, err = ids.New[identityKind](u.Clock.Now(), u.Random); err != nil {
		return OwnedIdentity{}, fmt.Errorf("make the id of an identity: %w", err)
	}
	err = u.Lookups.Do(ctx, func() (err error) {
		linked, err = u.Identities.LinkIdentity(ctx, l)
		return err
	})
	if err != nil {
		return OwnedIdentity{}, ofIdentity(err, "link an identity")
	}
	return linked, nil
}

// ListIdentities lists the identities of a user, the oldest first.
func (u *Users) ListIdentities(ctx context.Context, id ID) (all []OwnedIdentity, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		all, err = u.Identities.Identities(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the identities of a user: %w", err)
	}
	return all, nil
}

// EndIdentity ends an identity of a user, and all sessions but the one that asks: whoever lost a
// wallet does not know who has signed in by it. The user's e-mail gets a letter. It fails with
// identity_not_found, for identities of others too, fresh_sign_in_required, and
// transition_not_allowed for the last way to sign in.
func (u *Users) EndIdentity(ctx context.Context, id ID, identity IdentityID, keep FamilyID) error {
	err := u.Lookups.Do(ctx, func() error { return u.Identities.EndIdentity(ctx, id, identity, keep) })
	switch {
	case errors.Is(err, ErrNotFound):
		return fault.New(fault.NotFound, fault.IdentityNotFound, "there is no such identity").On("identity_id")
	case err != nil:
		return ofIdentity(err, "end an identity")
	}
	return nil
}

// ofIdentity returns the fault of an error of the store.
func ofIdentity(err error, attempted string) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return NotFound()
	case errors.Is(err, ErrProofUsed):
		return fault.New(fault.Unauthenticated, fault.InvalidCredentials,
			"this proof was used before; begin the sign-in again")
	case errors.Is(err, ErrTooManyProofs):
		return fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"this user signed in too often of late; try again later").After(proofKept)
	case errors.Is(err, ErrUnconfirmed):
		return fault.New(fault.Denied, fault.EmailNotConfirmed,
			"an identity is linked once the user has confirmed the e-mail address (POST /api/v1/user/me/email asks for the "+
				"letter)")
	case errors.Is(err, ErrNotFresh):
		return fault.New(fault.Denied, fault.FreshSignInRequired,
			"sign in again: how a user signs in is changed within %v of a sign-in", FreshFor)
	case errors.Is(err, ErrIdentityTaken):
		return fault.New(fault.Conflict, fault.AlreadyExists, "another user signs in by this identity")
	case errors.Is(err, ErrTooManyIdentities):
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "a user has at most %d identities", MaxIdentities)
	case errors.Is(err, ErrTooManyWallets):
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"%d wallets have signed for this user, those that were ended included; no further one may", kin.MaxWallets)
	case errors.Is(err, ErrLastWayIn):
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"it is the last way in which the user can sign in; link another before").On("identity_id")
	}
	return fmt.Errorf("%s: %w", attempted, err)
}
