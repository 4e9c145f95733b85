package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/user"
)

// A session lives for SessionLife at most and ends IdleTimeout after its last use. A use is
// noted at most once in UseInterval, so a session may end that much sooner. Its row is kept
// for SessionKept. MaxSessions is how many rows an operator has: one more sign-in takes the
// place of the oldest.
const (
	SessionLife = 12 * time.Hour
	IdleTimeout = 30 * time.Minute
	UseInterval = time.Minute
	SessionKept = 30 * 24 * time.Hour
	MaxSessions = 32
)

// Attempts to sign in under one name that fail or are under way are counted over all replicas.
// Each network has NetworkPace. All networks from which the operator has not signed in within
// SessionKept also share StrangersPace. So guesses from strange networks use up only what those
// networks share, and never slow a known network.
//
// Three of 10^6 codes are good at any moment. Somebody who knows the password has 740 tries a
// day from strange networks, which find a code with a probability of 0.2% a day. Behind the
// operator's own network there are 1,445 tries, and 0.4%.
var (
	NetworkPace   = user.Pace{AtOnce: 5, Interval: time.Minute}
	StrangersPace = user.Pace{AtOnce: 20, Interval: 2 * time.Minute}
)

// Room refuses an attempt that finds no room at a moment, and says how long until there is
// room.
func Room(c user.Counts, known bool, now time.Time) error {
	wait := NetworkPace.Wait(c.Network, now)
	if !known {
		wait = max(wait, StrangersPace.Wait(c.Strangers, now))
	}
	if wait <= 0 {
		return nil
	}
	return fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"too many attempts to sign in under this name failed; try again later").After(wait)
}

// maxNetwork bounds the network that a gateway names, in bytes.
const maxNetwork = 64

// Session is an operator who has signed in, with the token, which is shown this once.
type Session struct {
	Operator  Operator
	Token     Token
	ExpiresAt time.Time
}

// SignIn opens a session. It fails alike for a name that nobody has, a wrong password, and a
// code that is wrong or was used. With a text that cannot be a name, a password or a code
// nothing is compared and nothing counted.
func (o *Operators) SignIn(ctx context.Context, name, password, code, network string) (in Session, err error) {
	if len(network) > maxNetwork {
		return Session{}, fault.New(fault.Invalid, fault.InvalidValue, "network must have at most %d bytes",
			maxNetwork).On("network")
	}
	n, err := ParseName(name)
	if err != nil || !user.Fits(password) || !isCode(code) {
		return Session{}, wrong()
	}
	s := NewSession{Attempt: Attempt{Name: n, Subject: subjectOf(n), Network: o.mark(n, network)}}
	if s.ID, err = ids.New[sessionKind](o.Clock.Now(), o.Random); err != nil {
		return Session{}, fmt.Errorf("make the id of a session: %w", err)
	}
	if in.Token, err = newToken(sessionPrefix, o.Random); err != nil {
		return Session{}, err
	}
	s.Token = digestOf(in.Token.text)
	tries := user.Tries{
		Take: func(ctx context.Context) (known bool, err error) {
			s.Attempt, err = o.Store.Count(ctx, s.Attempt)
			return s.Attempt.Known, err
		},
		GiveBack: func(ctx context.Context) error { return o.Store.Uncount(ctx, s.Attempt) },
	}
	err = o.Passwords.Guard(ctx, network, tries, func() (err error) {
		if err := o.verify(ctx, &s, password, code); err != nil {
			return err
		}
		in.Operator = s.Operator
		in.ExpiresAt, err = o.Store.Open(ctx, s)
		if errors.Is(err, ErrChanged) {
			return wrong()
		}
		return err
	})
	if err != nil {
		return Session{}, wrapped("sign an operator in", err)
	}
	return in, nil
}

// verify compares a password and a code, and notes whose they are. It compares with nobody's
// when there is no active operator of the name, so that the time says nothing.
func (o *Operators) verify(ctx context.Context, s *NewSession, password, code string) error {
	found, hash, sealed, err := o.Store.ByName(ctx, s.Attempt.Name)
	known := err == nil
	var secret Secret
	var by apikey.Number
	switch {
	case errors.Is(err, ErrNotFound):
		hash = user.Nobody()
	case err != nil:
		return fmt.Errorf("look up an operator: %w", err)
	default:
		if secret, by, err = o.Sealer.open(found.ID, sealed); err != nil {
			return err
		}
	}
	matches, err := hash.Matches(password)
	if err != nil {
		return fmt.Errorf("compare a password: %w", err)
	}
	step, ok := secret.match(code, o.Clock.Now())
	if !known || !matches || !ok {
		return wrong()
	}
	s.Operator, s.Was, s.Step = found, hash.Text(), step
	s.Renewed, s.Pepper = o.Sealer.renewed(found.ID, secret, by), o.Sealer.Pepper()
	return nil
}

// Whose finds the operator of a session's token. It fails with invalid_session and
// session_expired.
func (o *Operators) Whose(ctx context.Context, token Digest) (found SignedIn, err error) {
	err = o.Lookups.Do(ctx, func() (err error) {
		found, err = o.Store.BySession(ctx, token)
		return err
	})
	switch {
	case errors.Is(err, ErrOver):
		return SignedIn{}, fault.New(fault.Unauthenticated, fault.SessionExpired, "the session is over; sign in again")
	case errors.Is(err, ErrNotFound):
		return SignedIn{}, fault.New(fault.Unauthenticated, fault.InvalidSession,
			"there is no such session; sign in again")
	case err != nil:
		return SignedIn{}, wrapped("look up an operator's session", err)
	}
	return found, nil
}

// SignOut ends a session.
func (o *Operators) SignOut(ctx context.Context, session string) error {
	id, err := ids.ParseAccount(session) // an id of any kind reads the same
	if err != nil {
		return notAllowed("who did not sign in has no session to end")
	}
	err = o.Lookups.Do(ctx, func() error { return o.Store.EndSession(ctx, SessionID(id)) })
	if err != nil {
		return wrapped("sign an operator out", err)
	}
	return nil
}

// subjectOf returns the digest that stands for a name where attempts are counted. No e-mail
// has a space, so it is no user's.
func subjectOf(name Name) Digest { return digestOf("operator " + string(name)) }

// mark returns the digest under which a network is remembered for one name. Because of the
// pepper, nobody who reads the store learns an address. Under another pepper a network is strange
// until the operator signs in again.
func (o *Operators) mark(name Name, network string) Digest {
	return Digest(o.Peppers.Hash(apikey.Sum("operator network " + string(name) + " " + network)).Hash)
}
