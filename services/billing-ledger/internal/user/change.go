package user

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/fault"
)

// ChangePassword sets another password for a user who knows the present one, and ends all
// other families. Guesses are counted as those to sign in. It fails with
// invalid_credentials, invalid_value, rate_limit_exceeded, and transition_not_allowed for a
// user without a password.
func (u *Users) ChangePassword(ctx context.Context, id ID, keep FamilyID, current, next, network string) error {
	if err := (From{Network: network}).check(); err != nil {
		return err
	}
	if !fits(next) {
		return invalid("new_password", "must have %d to %d characters", minPassword, maxPassword)
	}
	found, err := u.Get(ctx, id)
	if err != nil {
		return err
	}
	if found.Email == "" {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the user signs in without a password")
	}
	if !found.HasPassword {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"the user has no password; ask for a letter that sets one")
	}
	if !fits(current) {
		return wrongPassword()
	}
	return u.guarded(ctx, found.Email, network, func(attempt Attempt) error {
		who, kept, err := u.verify(ctx, found.Email, current)
		switch {
		case fault.Is(err, fault.InvalidCredentials) || err == nil && who.ID != id:
			return wrongPassword()
		case err != nil:
			return err
		}
		now, err := hash(next, u.Random)
		if err != nil {
			return err
		}
		err = u.Letters.ChangePassword(ctx, PasswordChange{User: id, Was: kept.Text(), Now: now, Attempt: attempt,
			Keep: keep})
		if errors.Is(err, ErrNotFound) {
			return wrongPassword() // somebody else was faster
		}
		if err != nil {
			return fmt.Errorf("store a password: %w", err)
		}
		return nil
	})
}

func wrongPassword() error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "the password is wrong").On("current_password")
}
