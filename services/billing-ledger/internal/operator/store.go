package operator

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/services/billing-ledger/internal/user"
)

// Digest is the SHA-256 of a secret, or a mark of a network.
type Digest = user.Digest

// Ticket is what an invited operator shows, as it is stored.
type Ticket struct {
	Digest Digest
	Life   time.Duration
}

// Acceptance is what an operator gets for its invitation.
type Acceptance struct {
	Invitation Digest
	ID         ID
	Password   user.Hash
	Secret     Sealed
	// Pepper is the number of the pepper that opens the secret.
	Pepper apikey.Number
	// Confirmation takes the invitation's place.
	Confirmation Ticket
}

// Attempt is one counted attempt to sign in under a name.
type Attempt struct {
	Name Name
	// Subject stands for the name where attempts are counted.
	Subject Digest
	// Network is the mark of the network that the attempt comes from.
	Network Digest
	// Known reports whether the operator has signed in from that network of late.
	Known bool
}

// SignedIn is an operator with a session that lives.
type SignedIn struct {
	Operator
	Session SessionID
	// ExpiresAt is when the session ends however much it is used.
	ExpiresAt time.Time
}

// NewSession is everything that is stored when an operator signs in.
type NewSession struct {
	ID       SessionID
	Operator Operator
	Token    Digest
	Attempt  Attempt
	// Was is the text of the hash that the operator showed the password of, and Step the step of
	// its code.
	Was  string
	Step int64
	// Renewed is the secret of the codes, sealed again under the pepper of that number; nil for as it
	// was.
	Renewed Sealed
	Pepper  apikey.Number
}

// Errors that a store returns.
var (
	ErrNotFound = errors.New("no such operator")
	ErrOver     = errors.New("the session is over")
	// ErrChanged is the error for a sign-in whose code was used meanwhile, or whose operator was
	// changed.
	ErrChanged = errors.New("the code was used or the operator was changed meanwhile")
)

// Store keeps operators. The store's clock decides the times of tickets and sessions. Every
// change leaves an audit entry.
type Store interface {
	// Add stores an invited operator. It fails with NameTaken and TooMany.
	Add(ctx context.Context, o Operator, t Ticket) (Operator, time.Time, error)
	// AddFirst stores an invited admin, or invites it again, and ends all others who are invited.
	// It fails with NotFirst while an admin is active, NameTaken and TooMany.
	AddFirst(ctx context.Context, o Operator, t Ticket) (Operator, time.Time, error)
	// ByTicket finds the operator of a ticket that is not over: ErrNotFound. The secret is nil for
	// an invitation.
	ByTicket(ctx context.Context, ticket Digest) (Operator, Sealed, error)
	// Accept uses an invitation: ErrNotFound.
	Accept(ctx context.Context, a Acceptance) (time.Time, error)
	// Activate uses a confirmation and the code of a step, and notes when: ErrNotFound.
	Activate(ctx context.Context, id ID, confirmation Digest, step int64) (Operator, error)
	// ByName finds an active operator with what it signs in with: ErrNotFound.
	ByName(ctx context.Context, name Name) (Operator, user.Hash, Sealed, error)
	// Count counts an attempt if Room has room for it. The calls for one name wait for each other.
	Count(ctx context.Context, a Attempt) (Attempt, error)
	// Uncount takes an attempt back.
	Uncount(ctx context.Context, a Attempt) error
	// Open takes an attempt back and stores a session: ErrChanged.
	Open(ctx context.Context, s NewSession) (time.Time, error)
	// BySession finds the active operator of a session that lives, and notes that it is used:
	// ErrOver, ErrNotFound.
	BySession(ctx context.Context, token Digest) (SignedIn, error)
	// EndSession ends a session. It does nothing when there is none such that lives.
	EndSession(ctx context.Context, id SessionID) error
	// List lists all operators by name.
	List(ctx context.Context) ([]Operator, error)
	// SetRole gives an operator a role. It fails with NotFound and LastAdmin.
	SetRole(ctx context.Context, id ID, role Role) (Operator, error)
	// ResetOperator makes another invitation. It fails with NotFound and LastAdmin.
	ResetOperator(ctx context.Context, id ID, t Ticket) (Operator, time.Time, error)
	// EndOperator ends an operator. It fails with NotFound and LastAdmin.
	EndOperator(ctx context.Context, id ID) (Operator, error)
}
