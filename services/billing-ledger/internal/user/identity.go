package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/kin"
)

// MaxIdentities is how many identities a user has. MaxProofs is how many used proofs of a
// user are remembered, each until it counts no longer: a user who has used as many waits.
const (
	MaxIdentities = 8
	MaxProofs     = 32
)

// FreshFor is how long after a sign-in its session may change how the user signs in. A session that
// is renewed for weeks, and whose token somebody may have copied, does not take an account over.
const FreshFor = 15 * time.Minute

// proofKept is how long a used proof is remembered beyond its end, because the clocks of
// replicas may differ.
const proofKept = 5 * time.Minute

type identityKind struct{}

// IdentityID names an identity of a user.
type IdentityID = ids.Of[identityKind]

// ParseIdentity reads the id of an identity.
func ParseIdentity(text string) (IdentityID, error) {
	id, err := ids.ParseAccount(text) // an id of any kind reads the same
	return IdentityID(id), err
}

// Issuer is who vouches for an identity: Wallet, or the address of an OpenID provider.
type Issuer string

// Wallet is the issuer of wallets, which vouch for themselves by a signature.
const Wallet Issuer = "wallet"

// Identity is whom a user is for an issuer. Users are told apart by issuer and subject alone.
// An e-mail that an issuer knows links nothing, because not every issuer has looked who reads it.
type Identity struct {
	Issuer  Issuer
	Subject string
}

// OwnedIdentity is an identity as its user is shown it.
type OwnedIdentity struct {
	ID IdentityID
	Identity
	// UsedAt is when the user last signed in by it, or linked it.
	CreatedAt, UsedAt time.Time
}

// Proof is what showed an identity. It counts once. The store remembers it until ForgetAt, which
// is after its end.
type Proof struct {
	Nonce    Digest
	ForgetAt time.Time
}

// Entry signs a user in by an identity.
type Entry struct {
	Identity Identity
	Proof    Proof
	Family   NewFamily
}

// Link gives a user a further identity.
type Link struct {
	User ID
	// Family is that of the session that asks.
	Family   FamilyID
	ID       IdentityID
	Identity Identity
	Proof    Proof
}

// Errors of identities that a store returns.
var (
	ErrIdentityTaken     = errors.New("another user has the identity")
	ErrProofUsed         = errors.New("the proof was used before")
	ErrTooManyProofs     = errors.New("the user has used too many proofs of late")
	ErrTooManyIdentities = errors.New("the user has as many identities as it may")
	ErrTooManyWallets    = errors.New("as many wallets have signed for the user as may")
	ErrLastWayIn         = errors.New("the user could not sign in any more")
	ErrNotFresh          = errors.New("the user signed in too long ago")
)

// IdentityStore keeps the identities of users. Its calls wait for others of the same user.
type IdentityStore interface {
	// Enter uses a proof, and stores a family for the user of the identity. It fails with
	// ErrNotFound, and then the proof is not used, ErrProofUsed, and ErrTooManyProofs.
	Enter(ctx context.Context, e Entry) (User, Ends, error)
	// LinkIdentity uses a proof, and stores an identity of a user. An identity that the user
	// has stays as it is. It fails with ErrNotFound, ErrNotFresh, ErrIdentityTaken,
	// ErrTooManyIdentities, ErrTooManyWallets, ErrProofUsed and ErrTooManyProofs. A wallet marks the
	// user's account in the same transaction, and the mark stays when the identity ends: see
	// package kin.
	LinkIdentity(ctx context.Context, l Link) (OwnedIdentity, error)
	// Identities lists the identities of a user, the oldest first.
	Identities(ctx context.Context, id ID) ([]OwnedIdentity, error)
	// EndIdentity ends an identity of a user, and all families of the user but one. It fails
	// with ErrNotFound, ErrNotFresh, of the family that stays, and ErrLastWayIn.
	EndIdentity(ctx context.Context, id ID, identity IdentityID, keep FamilyID) error
}

// proven is an identity that somebody has shown.
type proven struct {
	Identity
	proof Proof
	// account is the name of the account that a new user gets.
	account string
}

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
			keyText, err = "", comeIn()
		}
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
	if o.Key, keyText, err = u.Keys.Draft(key.IssueRequest{Account: o.Account.ID, Name: firstKey}); err != nil {
		return fail(err)
	}
	opened, ends, err := u.Store.OpenUser(ctx, o)
	if err != nil {
		return fail(err)
	}
	return opened, ends, keyText, nil
}

// link gives a user who is signed in a further identity. The user's e-mail gets a letter. It fails
// with already_exists for the identity of another user, invalid_credentials for a proof that was
// used, fresh_sign_in_required, transition_not_allowed for one identity too many or one wallet more
// than may ever be linked, and rate_limit_exceeded.
func (u *Users) link(ctx context.Context, id ID, family FamilyID, who proven) (linked OwnedIdentity, err error) {
	l := Link{User: id, Family: family, Identity: who.Identity, Proof: who.proof}
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
		return unproven("it was used before; ask for a fresh challenge")
	case errors.Is(err, ErrTooManyProofs):
		return fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"this user signed in too often of late; try again later").After(proofKept)
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

func unproven(why string) error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "the signature does not count: %s", why).On(
		"signature")
}
