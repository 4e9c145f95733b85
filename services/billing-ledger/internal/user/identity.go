package user

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
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

// Identity is who a user is to an issuer. Users are told apart by issuer and subject alone.
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
	// OnlyConfirmed refuses a user who has an e-mail that is not confirmed.
	OnlyConfirmed bool
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
	ErrUnconfirmed       = errors.New("the user has not confirmed its e-mail")
)

// IdentityStore keeps the identities of users. Its calls wait for others of the same user.
type IdentityStore interface {
	// Enter uses a proof, and stores a family for the user of the identity. It fails with
	// ErrNotFound, and then the proof is not used, ErrProofUsed, and ErrTooManyProofs.
	Enter(ctx context.Context, e Entry) (User, Ends, error)
	// LinkIdentity uses a proof, and stores an identity of a user. An identity that the user
	// has stays as it is. It fails with ErrNotFound, ErrUnconfirmed, ErrNotFresh,
	// ErrIdentityTaken, ErrTooManyIdentities, ErrTooManyWallets, ErrProofUsed and ErrTooManyProofs.
	// A wallet marks the user's account in the same transaction, and the mark stays when the
	// identity ends: see package kin.
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
	// account is the name of the account that a new user gets, which has a key unless keyless.
	account string
	keyless bool
}

func unproven(why string) error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "the signature does not count: %s", why).On(
		"signature")
}
