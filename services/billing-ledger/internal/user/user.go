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
// A user may also sign in by an identity, such as a wallet, which proves itself by a
// signature that counts once (see Wallets). Whoever comes by an unknown identity is a new
// user, without e-mail and password. Identities are linked to a user who is signed in,
// never by an e-mail, and the last way to sign in stays. A letter that sets a password ends
// all identities, because somebody else may have linked them.
//
// Nobody keeps an owner out by guessing. Strangers who guess without a pause take all
// that strangers have, but nothing of a network that the owner has signed in from; when
// they stop, there is room within a minute. Somebody who shares a network with the owner
// and guesses without a pause keeps that one network out, and no other. Guessing touches
// neither keys nor user sessions.
package user

import (
	"errors"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

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
	ID ID
	// Email is empty for a user who came by an identity.
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
