// Package operator keeps the people who run the platform, and their sessions.
//
// An admin invites an operator by name and role. The invitation, 256 random bits that are
// good for a day and once, lets its bearer choose a password and shows the secret of the
// operator's codes (RFC 6238). A first code activates the operator. Then name, password
// and code give a session of 12 hours, which ends after 30 minutes without a call. Nobody
// remembers who may do what, so an operator who is ended or has another role is treated
// so from the next call on.
//
// Passwords are hashed as those of users, in places of their own, so that a flood of
// users keeps no operator out. Attempts are counted before they wait for a place: see
// NetworkPace. A name that nobody has is treated as any other. The secrets of codes are
// sealed under a key that is derived from the pepper, so the database alone gives no code.
//
// A code counts once, an ended operator stays ended, one admin stays active, and an operator is
// active since the moment of its first code. The database enforces all four.
package operator

import (
	"regexp"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

type (
	kind        struct{}
	sessionKind struct{}
)

// ID names an operator.
type ID = ids.Of[kind]

// SessionID names a session of an operator.
type SessionID = ids.Of[sessionKind]

// Name is what an operator is called. It is given once, because audit entries have it.
type Name string

// named is what a name is: with '@' and an id it has at most 64 bytes, as the actors of
// audit entries.
var named = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,26}$`)

// ParseName reads a name.
func ParseName(text string) (Name, error) {
	if !named.MatchString(text) {
		return "", fault.New(fault.Invalid, fault.InvalidValue,
			"name must be 1 to 27 of a-z, 0-9, '.', '_' and '-', and begin with a letter or a digit").On("name")
	}
	return Name(text), nil
}

// Role is what an operator may do. Gateways decide which routes that is.
type Role string

// The roles.
const (
	Viewer    Role = "viewer"
	Support   Role = "support"
	Treasurer Role = "treasurer"
	Admin     Role = "admin"
)

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case Viewer, Support, Treasurer, Admin:
		return r, nil
	}
	return "", fault.New(fault.Invalid, fault.InvalidValue, "role must be viewer, support, treasurer or admin").On("role")
}

// Operator is a person who runs the platform.
type Operator struct {
	ID        ID
	Name      Name
	Role      Role
	State     State
	CreatedAt time.Time
	// SeenAt is zero for an operator who did not sign in within SessionKept.
	SeenAt time.Time
	// ActiveFor is the time since the operator became active, by the store's clock; zero for an
	// operator who is not active.
	ActiveFor time.Duration
}

// ApprovalDelay is how long an operator must have been active before it approves payouts. Whoever
// invites or resets an operator could accept the invitation in its place. The delay leaves the
// others time to see that.
const ApprovalDelay = 24 * time.Hour

// MayApprove reports whether the operator has been active for long enough to approve payouts.
func (o Operator) MayApprove() bool { return o.ActiveFor >= ApprovalDelay }

// Called is the name of the operator in audit entries.
func (o Operator) Called() string { return Called(o.Name, o.ID) }

// Called returns the name of an operator in audit entries.
func Called(name Name, id ID) string { return string(name) + "@" + id.String() }
