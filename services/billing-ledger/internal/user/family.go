package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

// A family is a sign-in with the tokens that followed from it. FamilyLife is how long a
// remembered family lives after its last use. MaxFamilies is how many families a user has:
// a further sign-in takes the place of the family that matters least, which is one that has
// ended, then one that is not remembered, and then the one that was used least recently.
const (
	FamilyLife  = 30 * 24 * time.Hour
	MaxFamilies = 32
	// FamilyKept is how long a family is kept after its end, so that its tokens are told
	// that it is over.
	FamilyKept = SessionKept
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
)

// Family is a family as its user is shown it.
type Family struct {
	ID                           FamilyID
	Network                      string
	Remembered                   bool
	CreatedAt, UsedAt, ExpiresAt time.Time
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

// begin makes the tokens of a sign-in, and what is stored of them.
func (u *Users) begin(from From) (f NewFamily, in SignedIn, err error) {
	if err := from.check(); err != nil {
		return f, in, err
	}
	if f.ID, err = ids.New[familyKind](u.Clock.Now(), u.Random); err != nil {
		return f, in, fmt.Errorf("make the id of a family: %w", err)
	}
	if in.Token, err = NewToken(u.Random); err != nil {
		return f, in, err
	}
	f.Token, f.Shown, in.Family = in.Token.Digest(), from.Shown, f.ID
	if from.Remember {
		if in.Refresh, err = NewToken(u.Random); err != nil {
			return f, in, err
		}
		f.Refresh = in.Refresh.Digest()
	}
	return f, in, nil
}

// LogOut ends the family of a token, or of a refresh token, or all families of its user.
// It fails with invalid_session. An old refresh token ends no other family than its own,
// because whoever has one may not be the user.
func (u *Users) LogOut(ctx context.Context, token Digest, refresh, everywhere bool) error {
	err := u.Lookups.Do(ctx, func() error {
		id, family, unused, err := u.Families.FamilyOf(ctx, token, refresh)
		switch {
		case err != nil:
			return err
		case everywhere && unused:
			return u.Families.EndFamilies(ctx, id, FamilyID{}, LoggedOutOfAll)
		}
		return u.Families.EndFamily(ctx, id, family, LoggedOut)
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return noSession()
	case err != nil:
		return fmt.Errorf("sign a user out: %w", err)
	}
	return nil
}

// ListFamilies lists the families of a user that live.
func (u *Users) ListFamilies(ctx context.Context, id ID) (all []Family, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		all, err = u.Families.Families(ctx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the families of a user: %w", err)
	}
	return all, nil
}

// EndFamily ends one family of a user. It fails with session_not_found, for families of
// others too.
func (u *Users) EndFamily(ctx context.Context, id ID, family FamilyID) error {
	err := u.Lookups.Do(ctx, func() error { return u.Families.EndFamily(ctx, id, family, EndedByUser) })
	switch {
	case errors.Is(err, ErrNotFound):
		return fault.New(fault.NotFound, fault.SessionNotFound, "there is no such session").On("session_id")
	case err != nil:
		return fmt.Errorf("end a family: %w", err)
	}
	return nil
}

func noSession() error {
	return fault.New(fault.Unauthenticated, fault.InvalidSession, "there is no such session; sign in again")
}
