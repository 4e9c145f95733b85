package user

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/key"
)

// Opening is everything that signing up writes.
type Opening struct {
	ID          ID
	Email       Email
	DisplayName string
	Password    Hash
	Account     account.Draft
	Key         key.Key
	Family      NewFamily
	// Network is the mark of the network that the user signs up from.
	Network Digest
	// Confirm has a letter sent that lets its reader confirm the e-mail.
	Confirm bool
	// Identity is how a user signs in who has neither e-mail nor password nor network, and no
	// key unless Key is set. Its proof is used.
	IdentityID IdentityID
	Identity   Identity
	Proof      Proof
}

// Store keeps users. The store's clock decides all times.
type Store interface {
	// OpenUser stores a user with account, wallet, key, session and network or identity, or
	// nothing: ErrEmailTaken, ErrIdentityTaken, ErrProofUsed.
	OpenUser(ctx context.Context, o Opening) (User, Ends, error)
	// TakeAttempt counts an attempt to sign in from a network if Counts.Room has room for
	// it. The calls for one e-mail wait for each other.
	TakeAttempt(ctx context.Context, e Email, network Digest) (Attempt, error)
	// GiveBack takes an attempt back.
	GiveBack(ctx context.Context, e Email, a Attempt) error
	// UserByEmail finds a user and the hash of its password: ErrNotFound.
	UserByEmail(ctx context.Context, e Email) (User, Hash, error)
	// OpenSession takes an attempt back, remembers its network and stores a family with a
	// session.
	OpenSession(ctx context.Context, u User, a Attempt, f NewFamily) (Ends, error)
	// UserBySession finds the user of a session, and its sign-in: ErrOver when the
	// session is over and not forgotten yet, ErrNotFound.
	UserBySession(ctx context.Context, session Digest) (User, SignIn, error)
	// UserByID finds a user: ErrNotFound.
	UserByID(ctx context.Context, id ID) (User, error)
	// LinkProvider stores that the user owns a provider account: ErrNotFound,
	// ErrOwnsAnother, ErrProviderTaken.
	LinkProvider(ctx context.Context, id ID, provider ids.ProviderID) (User, error)
}

// FamilyStore keeps families. All its calls wait for others of the same user.
type FamilyStore interface {
	// Rotate uses a refresh token: see Rotation. It fails with ErrNotFound and ErrOver.
	Rotate(ctx context.Context, r Rotation) (Rotated, error)
	// FamilyOf finds the family of a token, or of a refresh token: ErrNotFound. unused
	// reports whether it is a token, or a refresh token that was not used.
	FamilyOf(ctx context.Context, token Digest, refresh bool) (user ID, family FamilyID, unused bool, err error)
	// Families lists the families of a user that live, those first that were used last.
	Families(ctx context.Context, id ID) ([]Family, error)
	// EndFamily ends a family of a user: ErrNotFound when the user has none such that lives.
	EndFamily(ctx context.Context, id ID, family FamilyID, cause Cause) error
	// EndFamilies ends all families of a user but one, which may be zero.
	EndFamilies(ctx context.Context, id ID, but FamilyID, cause Cause) error
}

// LetterToken is the token of a letter as it is stored.
type LetterToken struct {
	Digest Digest
	User   ID
	Kind   LetterKind
	Email  Email
	Life   time.Duration
}

// Reset sets a password by the token of a letter.
type Reset struct {
	Token    Digest
	Password Hash
}

// LetterStore keeps what letters bring about.
type LetterStore interface {
	// AskLetter counts a letter to an e-mail by LetterPace, and keeps it to be sent. It
	// fails with the fault of Counts, and ErrFull when too many letters wait.
	AskLetter(ctx context.Context, kind LetterKind, to Email, id ID) error
	// StoreLetterToken stores the token of a letter. ok is false when it is for nobody: of a
	// reset when there is no user of the e-mail, of a confirmation when the user has
	// confirmed one.
	StoreLetterToken(ctx context.Context, t LetterToken) (ok bool, err error)
	// ConfirmEmail uses the token of a letter: ErrNotFound.
	ConfirmEmail(ctx context.Context, token Digest) (User, error)
	// MayReset reports whether a token would reset a password.
	MayReset(ctx context.Context, token Digest) (bool, error)
	// ResetPassword uses the token of a letter, sets the password, confirms the e-mail and
	// ends all families and identities: ErrNotFound.
	ResetPassword(ctx context.Context, r Reset) error
	// ChangePassword sets a password and ends all families but one: ErrNotFound when the
	// password was changed meanwhile.
	ChangePassword(ctx context.Context, c PasswordChange) error
}

// Rotation uses a refresh token.
type Rotation struct {
	// Presented is the digest of the refresh token, Token that of the new token.
	Presented, Token Digest
	// Successor is the digest of the next refresh token, and Sealed its text under a key of
	// the presented token. Without them the token is not used, but gives a token all the
	// same: it is the successor of one that was used just now.
	Successor Digest
	Sealed    []byte
	Shown     string
}

// Follows reports whether the rotation only follows another.
func (r Rotation) Follows() bool { return r.Sealed == nil }

// Rotated is what became of a refresh token.
type Rotated struct {
	User   User
	Family FamilyID
	Ends   Ends
	// Sealed is set when the token was used within ReuseGrace. Nothing was stored then.
	Sealed []byte
	// Reused reports whether the token was used before. Its family has ended.
	Reused bool
}

// PasswordChange sets the password of a user who has one.
type PasswordChange struct {
	User ID
	// Was is the text of the hash that the user showed the password of. A change that
	// another was faster than fails.
	Was     string
	Now     Hash
	Attempt Attempt
	// Keep is the family that the change is made in. All others end.
	Keep FamilyID
}

// LetterKind is what a letter is for.
type LetterKind string

// The kinds of letters. The first two have a token, which is made when the letter is sent.
// Only its digest is stored, and it counts once.
const (
	ConfirmLetter   LetterKind = "confirm"
	ResetLetter     LetterKind = "reset"
	ReuseLetter     LetterKind = "reuse"
	ChangedLetter   LetterKind = "password_changed"
	ResetDoneLetter LetterKind = "reset_done"
	LinkedLetter    LetterKind = "identity_linked"
	EndedLetter     LetterKind = "identity_ended"
	AddressLetter   LetterKind = "provider_address"
)
