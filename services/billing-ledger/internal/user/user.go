// Package user keeps the users and their user sessions.
//
// A user signs up with an e-mail and a password. One transaction makes the user, the
// consumer account, its wallet and first key, and a user session. Signing in gives a
// token: 256 random bits, valid for 15 minutes, of which only the SHA-256 is stored. A
// user has at most 32 user sessions. A further sign-in ends the user session that would
// end first.
//
// Passwords are stored as argon2id (see Hash) and compared only in a place of Passwords,
// because each comparison takes 19 MiB and tens of milliseconds. An attempt to sign in is
// counted before it waits for a place, exactly over all replicas, by its e-mail and its
// network (see Pace). The count is taken back when the password was right and when
// nothing was compared. An e-mail without a user is treated alike in everything: its
// attempts are counted, and its password is compared with a hash that nothing matches.
// Only signing up says that an e-mail is taken.
//
// Nobody keeps an owner out by guessing. Strangers who guess without a pause take all
// that strangers have, but nothing of a network that the owner has signed in from; when
// they stop, there is room within a minute. Somebody who shares a network with the owner
// and guesses without a pause keeps that one network out, and no other. Guessing touches
// neither keys nor user sessions.
package user

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
)

// maxDisplayName is in characters.
const maxDisplayName = 64

// firstKey is the name of the key that signing up issues.
const firstKey = "first key"

type kind struct{}

// ID names a user.
type ID = ids.Of[kind]

// ParseID reads an id.
func ParseID(text string) (ID, error) {
	id, err := ids.ParseAccount(text) // an id of any kind reads the same
	return ID(id), err
}

// User is a person who may sign in.
type User struct {
	ID    ID
	Email Email
	// Confirmed reports whether the user has shown that it reads the e-mail, HasPassword
	// whether it has chosen a password.
	Confirmed, HasPassword bool
	DisplayName            string
	Account                ids.AccountID
	// Provider is zero for a user who is only a consumer.
	Provider  ids.ProviderID
	CreatedAt time.Time
}

// Errors that a store returns.
var (
	ErrEmailTaken    = errors.New("there is a user of this e-mail")
	ErrNotFound      = errors.New("no such user")
	ErrOver          = errors.New("the session is over")
	ErrOwnsAnother   = errors.New("the user owns another provider account")
	ErrProviderTaken = errors.New("another user owns the provider account")
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
}

// Store keeps users. The store's clock decides all times.
type Store interface {
	// OpenUser stores a user with account, wallet, key, session and network, or nothing:
	// ErrEmailTaken.
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
	// UserBySession finds the user of a session, and the session's family: ErrOver when the
	// session is over and not forgotten yet, ErrNotFound.
	UserBySession(ctx context.Context, session Digest) (User, FamilyID, error)
	// UserByID finds a user: ErrNotFound.
	UserByID(ctx context.Context, id ID) (User, error)
	// LinkProvider stores that the user owns a provider account: ErrNotFound,
	// ErrOwnsAnother, ErrProviderTaken.
	LinkProvider(ctx context.Context, id ID, provider ids.ProviderID) (User, error)
}

// Users answers gateways.
type Users struct {
	Store     Store
	Families  FamilyStore
	Letters   LetterStore
	Passwords *Passwords
	Accounts  *account.Accounts
	Keys      *key.Keys
	Pepper    apikey.Pepper
	Clock     clock.Clock
	Random    io.Reader
	// Lookups are the places for calls that need no password.
	Lookups *limit.Semaphore
	// SendsLetters reports whether the installation sends letters.
	SendsLetters bool
	// ObserveReuse is told of a refresh token that was used twice; nil for nobody.
	ObserveReuse func(context.Context, ID, FamilyID)
}

// SignedIn is a user with a token, which is shown this once.
type SignedIn struct {
	User      User
	Token     Token
	ExpiresAt time.Time
	Family    FamilyID
	// Refresh is the zero token when nobody asked for one.
	Refresh          Token
	RefreshExpiresAt time.Time
}

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

// Whose finds the user who signed in with a token, and the family of the token.
func (u *Users) Whose(ctx context.Context, session Digest) (found User, family FamilyID, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		found, family, err = u.Store.UserBySession(ctx, session)
		return err
	})
	switch {
	case errors.Is(err, ErrOver):
		return User{}, family, fault.New(fault.Unauthenticated, fault.SessionExpired, "the session is over; sign in again")
	case errors.Is(err, ErrNotFound):
		return User{}, family, noSession()
	case err != nil:
		return User{}, family, fmt.Errorf("look up session: %w", err)
	}
	return found, family, nil
}

// Get finds a user.
func (u *Users) Get(ctx context.Context, id ID) (found User, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		found, err = u.Store.UserByID(ctx, id)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return User{}, NotFound()
	}
	if err != nil {
		return User{}, fmt.Errorf("look up a user: %w", err)
	}
	return found, nil
}

// LinkProvider stores that a user owns a provider account. Storing the same again changes
// nothing.
func (u *Users) LinkProvider(ctx context.Context, id ID, provider ids.ProviderID) (linked User, err error) {
	err = u.Lookups.Do(ctx, func() (err error) {
		linked, err = u.Store.LinkProvider(ctx, id, provider)
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return User{}, NotFound()
	case errors.Is(err, ErrOwnsAnother), errors.Is(err, ErrProviderTaken):
		return User{}, fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed,
			"the user or the provider account is linked to another").On("provider_id")
	case err != nil:
		return User{}, fmt.Errorf("link provider: %w", err)
	}
	return linked, nil
}

// NotFound is the error for a user that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, fault.UserNotFound, "there is no such user").On("user_id")
}

func wrong() error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "the e-mail or the password is wrong")
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
