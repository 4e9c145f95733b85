package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/user"
)

// InvitationLife is how long an invitation is good, and ConfirmationLife how long a first
// code may take after it was accepted.
const (
	InvitationLife   = 24 * time.Hour
	ConfirmationLife = time.Hour
)

// minPassword is in characters; the other bounds are those of users.
const minPassword = 12

// MaxOperators bounds the operators that there ever were, as the database does. A list has all.
const MaxOperators = 500

// Operators answers gateways.
type Operators struct {
	Store Store
	// Passwords are places of their own, so that no flood of users keeps an operator out.
	Passwords *user.Passwords
	Sealer    *Sealer
	Peppers   apikey.Peppers
	Clock     clock.Clock
	Random    io.Reader
	// Lookups are the places for calls that need no password.
	Lookups *limit.Semaphore
}

// Invitation is an operator with the token of its invitation, which is shown this once.
type Invitation struct {
	Operator  Operator
	Token     Token
	ExpiresAt time.Time
}

// InviteFirst invites an admin while no admin is active.
func (o *Operators) InviteFirst(ctx context.Context, name string) (Invitation, error) {
	return o.invite(ctx, name, Admin, o.Store.AddFirst)
}

// Invite invites an operator.
func (o *Operators) Invite(ctx context.Context, name, role string) (Invitation, error) {
	r, err := ParseRole(role)
	if err != nil {
		return Invitation{}, err
	}
	return o.invite(ctx, name, r, o.Store.Add)
}

func (o *Operators) invite(
	ctx context.Context, name string, role Role,
	add func(context.Context, Operator, Ticket) (Operator, time.Time, error),
) (in Invitation, err error) {
	draft := Operator{Role: role, State: Invited}
	if draft.Name, err = ParseName(name); err != nil {
		return Invitation{}, err
	}
	if draft.ID, err = ids.New[kind](o.Clock.Now(), o.Random); err != nil {
		return Invitation{}, fmt.Errorf("make an operator's id: %w", err)
	}
	return o.withInvitation(ctx, func(t Ticket) (Operator, time.Time, error) { return add(ctx, draft, t) })
}

// withInvitation makes an invitation and has it stored.
func (o *Operators) withInvitation(
	ctx context.Context, keep func(Ticket) (Operator, time.Time, error),
) (in Invitation, err error) {
	if in.Token, err = newToken(invitationPrefix, o.Random); err != nil {
		return Invitation{}, err
	}
	err = o.Lookups.Do(ctx, func() (err error) {
		in.Operator, in.ExpiresAt, err = keep(Ticket{digestOf(in.Token.text), InvitationLife})
		return err
	})
	if err != nil {
		return Invitation{}, wrapped("invite an operator", err)
	}
	return in, nil
}

// Accepted is what the bearer of an invitation is shown this once.
type Accepted struct {
	Operator     Operator
	Secret       Secret
	Confirmation Token
	ExpiresAt    time.Time
}

// Accept sets the password of an invited operator. It fails with invalid_value, and
// invalid_credentials for an invitation that is wrong, used or over.
func (o *Operators) Accept(ctx context.Context, invitation, password, network string) (out Accepted, err error) {
	if n := utf8.RuneCountInString(password); n < minPassword || !user.Fits(password) {
		return Accepted{}, fault.New(fault.Invalid, fault.InvalidValue, "password must have %d to 256 characters",
			minPassword).On("password")
	}
	a := Acceptance{Invitation: digestOf(invitation)}
	// The invitation is looked up first, so that one that was made up costs no hash.
	var sealed Sealed
	err = o.Lookups.Do(ctx, func() (err error) {
		out.Operator, sealed, err = o.Store.ByTicket(ctx, a.Invitation)
		return err
	})
	if errors.Is(err, ErrNotFound) || err == nil && sealed != nil {
		return Accepted{}, noTicket()
	}
	if err != nil {
		return Accepted{}, fmt.Errorf("look up an invitation: %w", err)
	}
	if out.Secret, err = newSecret(o.Random); err != nil {
		return Accepted{}, err
	}
	if out.Confirmation, err = newToken(confirmationPrefix, o.Random); err != nil {
		return Accepted{}, err
	}
	a.ID, a.Secret, a.Pepper = out.Operator.ID, o.Sealer.seal(out.Operator.ID, out.Secret), o.Sealer.Pepper()
	a.Confirmation = Ticket{digestOf(out.Confirmation.text), ConfirmationLife}
	err = o.Passwords.Hash(ctx, network, func() (err error) {
		if a.Password, err = user.HashPassword(password, o.Random); err != nil {
			return err
		}
		out.ExpiresAt, err = o.Store.Accept(ctx, a)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Accepted{}, noTicket() // somebody else was faster
	}
	if err != nil {
		return Accepted{}, wrapped("accept an invitation", err)
	}
	return out, nil
}

// Confirm activates an operator by its first code. It fails with invalid_credentials.
// Whoever has the confirmation was shown the secret, so this service counts no wrong codes. The
// gateway counts them for the caller's network.
func (o *Operators) Confirm(ctx context.Context, confirmation, code string) (active Operator, err error) {
	ticket := digestOf(confirmation)
	err = o.Lookups.Do(ctx, func() error {
		found, sealed, err := o.Store.ByTicket(ctx, ticket)
		if err != nil {
			return err
		}
		if sealed == nil || !isCode(code) {
			return ErrNotFound
		}
		secret, _, err := o.Sealer.open(found.ID, sealed)
		if err != nil {
			return err
		}
		step, ok := secret.match(code, o.Clock.Now())
		if !ok {
			return ErrNotFound
		}
		active, err = o.Store.Activate(ctx, found.ID, ticket, step)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Operator{}, fault.New(fault.Unauthenticated, fault.InvalidCredentials,
			"the confirmation or the code is wrong, used or over")
	}
	if err != nil {
		return Operator{}, wrapped("confirm an operator", err)
	}
	return active, nil
}

// List lists all operators by name.
func (o *Operators) List(ctx context.Context) (all []Operator, err error) {
	err = o.Lookups.Do(ctx, func() (err error) {
		all, err = o.Store.List(ctx)
		return err
	})
	if err != nil {
		return nil, wrapped("list operators", err)
	}
	return all, nil
}

// SetRole gives an operator another role.
func (o *Operators) SetRole(ctx context.Context, id ID, role string) (changed Operator, err error) {
	r, err := ParseRole(role)
	if err != nil {
		return Operator{}, err
	}
	err = o.Lookups.Do(ctx, func() (err error) {
		changed, err = o.Store.SetRole(ctx, id, r)
		return err
	})
	if err != nil {
		return Operator{}, wrapped("set the role of an operator", err)
	}
	return changed, nil
}

// Reset takes an operator's password, codes and sessions away. by is the name of who asks
// for it, which must be another: a stolen session must not make itself new codes.
func (o *Operators) Reset(ctx context.Context, id ID, by string) (Invitation, error) {
	if strings.HasSuffix(by, "@"+id.String()) {
		return Invitation{}, notAllowed("another admin resets an operator")
	}
	return o.withInvitation(ctx, func(t Ticket) (Operator, time.Time, error) { return o.Store.ResetOperator(ctx, id, t) })
}

// End ends an operator for good.
func (o *Operators) End(ctx context.Context, id ID) (ended Operator, err error) {
	err = o.Lookups.Do(ctx, func() (err error) {
		ended, err = o.Store.EndOperator(ctx, id)
		return err
	})
	if err != nil {
		return Operator{}, wrapped("end an operator", err)
	}
	return ended, nil
}

// wrapped says what was attempted, unless the caller is told by a fault.
func wrapped(attempted string, err error) error {
	if _, ok := fault.As(err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", attempted, err)
}
