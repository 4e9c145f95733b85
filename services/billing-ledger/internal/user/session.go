package user

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

type familyKind struct{}

// FamilyID names a family.
type FamilyID = ids.Of[familyKind]

// ParseFamily reads the id of a family. The empty text is the id of no family.
func ParseFamily(text string) (FamilyID, error) {
	if text == "" {
		return FamilyID{}, nil
	}
	id, err := ids.ParseAccount(text) // an id of any kind reads the same
	return FamilyID(id), err
}

// SignIn is the sign-in that a token rests on.
type SignIn struct {
	Family FamilyID
	// FreshUntil is until when it counts as fresh: see FreshFor.
	FreshUntil time.Time
}

// From is where somebody signs in from.
type From struct {
	// Network is a digest of the network, by which attempts are counted.
	Network string
	// Shown is the network, rounded, as the user is shown it.
	Shown string
	// Remember asks for a refresh token. Pages of our own site ask for one.
	Remember bool
}

// check refuses what no gateway says.
func (f From) check() error {
	if len(f.Network) > maxNetwork {
		return invalid("network", "must have at most %d bytes", maxNetwork)
	}
	if !account.ValidLabel(f.Shown, 0, maxNetwork) {
		return invalid("network_shown", "must have at most %d printable characters", maxNetwork)
	}
	return nil
}

// NewFamily is everything that is stored when a user signs in.
type NewFamily struct {
	ID FamilyID
	// Token is the digest of the token, and Refresh that of the first refresh token; zero
	// for a family that is not remembered.
	Token, Refresh Digest
	Shown          string
}

// Remembered reports whether the family has refresh tokens.
func (f NewFamily) Remembered() bool { return f.Refresh != Digest{} }

// Ends are the moments at which tokens end.
type Ends struct{ Token, Refresh time.Time }

// Cause is why a family ended before its time.
type Cause string

// The causes.
const (
	LoggedOut       Cause = "logout"
	LoggedOutOfAll  Cause = "everywhere"
	EndedByUser     Cause = "ended"
	PasswordChanged Cause = "password"
	PasswordReset   Cause = "reset"
	TokenReused     Cause = "reuse"
	IdentityEnded   Cause = "identity"
)

// Family is a family as its user is shown it.
type Family struct {
	ID                           FamilyID
	Network                      string
	Remembered                   bool
	CreatedAt, UsedAt, ExpiresAt time.Time
}
