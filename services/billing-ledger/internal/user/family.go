package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
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

// Whose finds the user who signed in with a token, and the sign-in.
func (u *Users) Whose(ctx context.Context, session Digest) (found User, in SignIn, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		found, in, err = u.Store.UserBySession(ctx, session)
		return err
	})
	switch {
	case errors.Is(err, ErrOver):
		return User{}, SignIn{}, fault.New(fault.Unauthenticated, fault.SessionExpired, "the session is over; sign in again")
	case errors.Is(err, ErrNotFound):
		return User{}, SignIn{}, noSession()
	case err != nil:
		return User{}, SignIn{}, fmt.Errorf("look up session: %w", err)
	}
	return found, in, nil
}
