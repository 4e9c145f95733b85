package user

import (
	"context"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/fault"
)

// What other packages need that hash passwords as this one does.

// NewPasswordPlaces makes so many places of each kind, and room for as many callers that
// wait as are served in time.
func NewPasswordPlaces(n int) *Passwords {
	p := NewPasswords()
	p.count.places, p.hashes.places = n, n
	p.hashes.limit = [classes]int{strangers: strangersWaiting * n / hashing, known: knownWaiting * n / hashing}
	return p
}

// Tries counts the attempts of one caller.
type Tries struct {
	// Take counts an attempt. It reports whether the caller's network is known.
	Take func(context.Context) (known bool, err error)
	// GiveBack takes the attempt back.
	GiveBack func(context.Context) error
}

// Guard runs fn, which compares a password, in a place. The attempt is counted before it
// waits for the place. It is taken back when fn fails for another reason than wrong
// credentials, so that an owner who found no place is not shut out.
func (p *Passwords) Guard(ctx context.Context, network string, t Tries, fn func() error) error {
	stay, err := p.enter(origin(network))
	if err != nil {
		return err
	}
	defer stay.leave()
	var isKnown bool
	err = stay.count(ctx, func() (err error) {
		isKnown, err = t.Take(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("count an attempt to sign in: %w", err)
	}
	err = stay.hash(ctx, classOf(isKnown), fn)
	if err != nil && !fault.Is(err, fault.InvalidCredentials) {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		defer cancel()
		_ = stay.count(back, func() error { return t.GiveBack(back) }) // else it counts as failed, which is over soon
	}
	return err
}

// Hash runs fn, which hashes a password that nobody guesses, in a place for strangers.
func (p *Passwords) Hash(ctx context.Context, network string, fn func() error) error {
	stay, err := p.enter(origin(network))
	if err != nil {
		return err
	}
	defer stay.leave()
	return stay.hash(ctx, strangers, fn)
}

// HashPassword makes a new hash of a password.
func HashPassword(password string, random io.Reader) (Hash, error) { return hash(password, random) }

// Nobody returns a hash that costs as much as any other and that no known password
// matches.
func Nobody() Hash { return nobody() }

// Matches reports whether the hash is that of a password.
func (h Hash) Matches(password string) (bool, error) { return h.matches(password) }

// Fits reports whether a text can be a password.
func Fits(text string) bool { return fits(text) }

// Wait returns how long a caller must wait for room for one more attempt. full is when the
// pace will be whole again.
func (p Pace) Wait(full, now time.Time) time.Duration { return p.wait(full, now) }
