package user

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
)

// How long the tokens of letters count, and how many of a kind a user has. A further one
// takes the place of the oldest.
const (
	ConfirmLife     = 24 * time.Hour
	ResetLife       = 30 * time.Minute
	MaxLetterTokens = 8
)

// LetterPace is how many letters may be asked for to one e-mail, whether there is a user of
// it or not. Everybody may ask, so nobody can keep an owner from a letter: letters that
// others asked for reach the owner too.
var LetterPace = Pace{AtOnce: 5, Interval: 10 * time.Minute}

// LettersMark is the network under which letters to an e-mail that somebody asks for are counted,
// by LetterPace. TellingMark is that of letters that tell of identities, and AddressMark that of letters
// that tell of a provider's addresses. Each has the same pace apart: who links and ends identities keeps
// nobody from a letter that sets a password or that tells of an address, and who asks for letters keeps no
// user from being told.
var (
	LettersMark = origin("letters")
	TellingMark = origin("letters that tell of identities")
	AddressMark = origin("letters that tell of addresses")
)

// LetterRoom refuses a letter for which there is no room, when LetterPace is whole again at
// full.
func LetterRoom(full, now time.Time) error {
	wait := LetterPace.wait(full, now)
	if wait <= 0 {
		return nil
	}
	return fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"too many letters to this e-mail were asked for; try again later").After(wait)
}

// ErrFull says that no further letter can wait.
var ErrFull = errors.New("too many letters wait")

// AskReset has a letter sent to an e-mail that lets its reader set a password. It does the
// same whether there is a user of the e-mail or not: only whoever sends the letter looks.
// It fails with invalid_value, rate_limit_exceeded and service_unavailable.
func (u *Users) AskReset(ctx context.Context, email string) error {
	e, err := ParseEmail(email)
	if err != nil {
		return invalid("email", "%s", err)
	}
	return u.askLetter(ctx, ResetLetter, e, ID{})
}

// AskConfirm has a letter sent to the user's e-mail that lets its reader confirm it. It
// fails with rate_limit_exceeded, service_unavailable, and transition_not_allowed.
func (u *Users) AskConfirm(ctx context.Context, id ID) error {
	found, err := u.Get(ctx, id)
	if err != nil {
		return err
	}
	if found.Email == "" {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the user has no e-mail")
	}
	if found.Confirmed {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "the e-mail is confirmed already")
	}
	return u.askLetter(ctx, ConfirmLetter, found.Email, id)
}

func (u *Users) askLetter(ctx context.Context, kind LetterKind, to Email, id ID) error {
	if !u.SendsLetters {
		return fault.New(fault.Unavailable, fault.ServiceUnavailable, "this installation sends no letters")
	}
	err := u.Lookups.Do(ctx, func() error { return u.Letters.AskLetter(ctx, kind, to, id) })
	switch {
	case errors.Is(err, ErrFull):
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "too many letters wait; try again later").After(
			time.Minute)
	case err != nil:
		return fmt.Errorf("keep a letter: %w", err)
	}
	return nil
}

// LetterToken makes the token of a letter that is about to be sent. ok is false when the
// letter is for nobody.
func (u *Users) LetterToken(ctx context.Context, kind LetterKind, to Email, id ID) (text string, ok bool, err error) {
	token, err := NewToken(u.Random)
	if err != nil {
		return "", false, err
	}
	life := ConfirmLife
	if kind == ResetLetter {
		life = ResetLife
	}
	ok, err = u.Letters.StoreLetterToken(ctx, LetterToken{Digest: token.Digest(), User: id, Kind: kind, Email: to,
		Life: life})
	if err != nil {
		return "", false, fmt.Errorf("store the token of a letter: %w", err)
	}
	return token.Reveal(), ok, nil
}

// ConfirmEmail confirms an e-mail by the token of a letter. It fails with
// invalid_credentials.
func (u *Users) ConfirmEmail(ctx context.Context, token string) error {
	err := u.Lookups.Do(ctx, func() error {
		_, err := u.Letters.ConfirmEmail(ctx, Token{token}.Digest())
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return deadLetter()
	case err != nil:
		return fmt.Errorf("confirm an e-mail: %w", err)
	}
	return nil
}

// ResetPassword sets a password by the token of a letter, and ends all families and identities
// of the user, because whoever had the account may have linked a wallet of its own. The password
// is hashed in a place of Passwords, and only for a token that counts, so guesses of tokens cost
// no hash. It fails with invalid_credentials and invalid_value.
func (u *Users) ResetPassword(ctx context.Context, token, password, network string) error {
	if err := (From{Network: network}).check(); err != nil {
		return err
	}
	if !fits(password) {
		return invalid("new_password", "must have %d to %d characters", minPassword, maxPassword)
	}
	digest := Token{token}.Digest()
	may := false
	err := u.Lookups.Do(ctx, func() (err error) {
		may, err = u.Letters.MayReset(ctx, digest)
		return err
	})
	if err != nil {
		return fmt.Errorf("look up the token of a letter: %w", err)
	}
	if !may {
		return deadLetter()
	}
	stay, err := u.Passwords.enter(origin(network))
	if err != nil {
		return err
	}
	defer stay.leave()
	err = stay.hash(ctx, known, func() error {
		made, err := hash(password, u.Random)
		if err != nil {
			return err
		}
		return u.Letters.ResetPassword(ctx, Reset{Token: digest, Password: made})
	})
	if errors.Is(err, ErrNotFound) {
		return deadLetter()
	}
	if err != nil {
		return fmt.Errorf("reset a password: %w", err)
	}
	return nil
}

func deadLetter() error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials,
		"the letter's token is not known, was used, or has expired; ask for another letter").On("token")
}
