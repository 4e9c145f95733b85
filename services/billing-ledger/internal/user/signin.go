package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/key"
)

// maxDisplayName is in characters.
const maxDisplayName = 64

// firstKey is the name of the key that signing up issues.
const firstKey = "first key"

// SignUp opens a user with a consumer account and returns the text of its first key,
// which is not stored.
func (u *Users) SignUp(
	ctx context.Context, email, password, displayName string, from From,
) (in SignedIn, keyText string, err error) {
	family, in, err := u.begin(from)
	if err != nil {
		return SignedIn{}, "", err
	}
	o, err := u.opening(email, displayName)
	if err != nil {
		return SignedIn{}, "", err
	}
	if !fits(password) {
		return SignedIn{}, "", invalid("password", "must have %d to %d characters", minPassword, maxPassword)
	}
	if o.Key, keyText, err = u.Keys.Draft(key.IssueRequest{Account: o.Account.ID, Name: firstKey}); err != nil {
		return SignedIn{}, "", err
	}
	o.Family, o.Network, o.Confirm = family, u.mark(o.Email, from.Network), u.SendsLetters
	stay, err := u.Passwords.enter(origin(from.Network))
	if err != nil {
		return SignedIn{}, "", err
	}
	defer stay.leave()
	err = stay.hash(ctx, strangers, func() error {
		// The e-mail is looked up first, so that an e-mail that is taken costs no hash.
		switch _, _, err := u.Store.UserByEmail(ctx, o.Email); {
		case err == nil:
			return ErrEmailTaken
		case !errors.Is(err, ErrNotFound):
			return fmt.Errorf("look up the e-mail: %w", err)
		}
		if o.Password, err = hash(password, u.Random); err != nil {
			return err
		}
		var ends Ends
		in.User, ends, err = u.Store.OpenUser(ctx, o)
		in.ExpiresAt, in.RefreshExpiresAt = ends.Token, ends.Refresh
		return err
	})
	if errors.Is(err, ErrEmailTaken) {
		return SignedIn{}, "", fault.New(fault.Conflict, fault.AlreadyExists, "there is a user of this e-mail already").On(
			"email")
	}
	if err != nil {
		return SignedIn{}, "", fmt.Errorf("open user: %w", err)
	}
	return in, keyText, nil
}

// opening returns what signing up writes, without the secrets.
func (u *Users) opening(email, displayName string) (o Opening, err error) {
	if o.Email, err = ParseEmail(email); err != nil {
		return o, invalid("email", "%s", err)
	}
	if !account.ValidLabel(displayName, 0, maxDisplayName) {
		return o, invalid("display_name", "must have at most %d printable characters", maxDisplayName)
	}
	o.DisplayName = displayName
	name := displayName
	if name == "" {
		name = o.Email.local()
	}
	return u.draft(o, name)
}

// draft gives a user that is opened its id, and a consumer account of that name.
func (u *Users) draft(o Opening, name string) (_ Opening, err error) {
	if o.Account, err = u.Accounts.Draft(name); err != nil {
		return o, err
	}
	if o.ID, err = ids.New[kind](u.Clock.Now(), u.Random); err != nil {
		return o, fmt.Errorf("make a user id: %w", err)
	}
	return o, nil
}

// giveBackTimeout bounds the time for taking an attempt back after its caller may have
// left.
const giveBackTimeout = 2 * time.Second

// LogIn signs a user in. It fails alike for a wrong password, for an e-mail without a
// user and for a text that is no e-mail. Failures are counted by the network that they
// come from.
func (u *Users) LogIn(ctx context.Context, email, password string, from From) (in SignedIn, err error) {
	family, in, err := u.begin(from)
	if err != nil {
		return SignedIn{}, err
	}
	e, err := ParseEmail(email)
	if err != nil || !fits(password) {
		return SignedIn{}, wrong()
	}
	err = u.guarded(ctx, e, from.Network, func(attempt Attempt) (err error) {
		if in.User, _, err = u.verify(ctx, e, password); err != nil {
			return err
		}
		ends, err := u.Store.OpenSession(ctx, in.User, attempt, family)
		if err != nil {
			return fmt.Errorf("open session: %w", err)
		}
		in.ExpiresAt, in.RefreshExpiresAt = ends.Token, ends.Refresh
		return nil
	})
	if err != nil {
		return SignedIn{}, err
	}
	return in, nil
}

// giveBack takes an attempt back that failed for another reason than its password, so
// that an owner who found no place is not shut out. An attempt that cannot be taken back
// counts as a failed one, which is over soon.
func (u *Users) giveBack(ctx context.Context, s *seat, e Email, a Attempt, failure error) {
	if fault.Is(failure, fault.InvalidCredentials) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	_ = s.count(ctx, func() error { return u.Store.GiveBack(ctx, e, a) })
}

// verify compares a password, and compares it with nobody's when there is no such user or
// the user has no password.
func (u *Users) verify(ctx context.Context, e Email, password string) (User, Hash, error) {
	found, kept, err := u.Store.UserByEmail(ctx, e)
	known := err == nil && found.HasPassword
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return User{}, Hash{}, fmt.Errorf("look up the e-mail: %w", err)
	case !known:
		kept = nobody()
	}
	matches, err := kept.matches(password)
	if err != nil {
		return User{}, Hash{}, fmt.Errorf("compare a password: %w", err)
	}
	if !known || !matches {
		return User{}, Hash{}, wrong()
	}
	return found, kept, nil
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

// markPurpose keeps marks apart from everything else that is hashed under the pepper.
const markPurpose = "sign-in network "

// mark returns the digest under which a network is remembered for one e-mail. Because of
// the pepper, nobody who reads the store learns an address, or that two users share a
// network. Under another pepper a network is strange until the user signs in again.
func (u *Users) mark(e Email, network string) Digest {
	return Digest(u.Peppers.Hash(apikey.Sum(markPurpose + string(e) + " " + network)).Hash)
}
