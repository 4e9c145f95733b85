package user

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/fault"
)

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

// guarded runs fn, which compares a password, in a place. The attempt is counted before it
// waits for the place, so that refused attempts keep nobody waiting.
func (u *Users) guarded(ctx context.Context, e Email, network string, fn func(Attempt) error) error {
	stay, err := u.Passwords.enter(origin(network))
	if err != nil {
		return err
	}
	defer stay.leave()
	var attempt Attempt
	err = stay.count(ctx, func() (err error) {
		attempt, err = u.Store.TakeAttempt(ctx, e, u.mark(e, network))
		return err
	})
	if err != nil {
		return fmt.Errorf("count an attempt to sign in: %w", err)
	}
	if err = stay.hash(ctx, classOf(attempt.Known), func() error { return fn(attempt) }); err != nil {
		u.giveBack(ctx, stay, e, attempt, err)
	}
	return err
}

func wrongPassword() error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "the password is wrong").On("current_password")
}
