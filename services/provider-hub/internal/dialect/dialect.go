// Package dialect is what a gate must know to speak with an agent: how the agent's
// messages are read and written, and the numbers that differ between dialects.
//
// A dialect is form only. It has no lock and no state, and it knows no session: it makes
// an Inbound of a message, and a message of an Outbound. Package session decides what a
// message leads to, and package gate how long an agent waits.
package dialect

import (
	"time"

	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// Codec reads and writes messages. It is safe for concurrent use.
type Codec interface {
	// Decode reads a message, and sets all of in. It returns a *session.Malformed for a
	// message that cannot be read. The bytes in in alias the message.
	Decode(msg []byte, in *session.Inbound) error
	// Name returns the name of the request that a message answers, when only the
	// beginning of the message is here; nil where the name is not known.
	Name(head []byte) []byte
	// Append appends the head of a message to dst. The body follows the head unchanged,
	// and the tail follows the body.
	Append(dst []byte, out *session.Outbound) (head, body []byte, tail string, err error)
	// Ending says how the connection is closed for a reason.
	Ending(why *session.CloseReason) Ending
}

// Ending is how a connection is closed.
type Ending struct {
	// Status is the status of the close frame.
	Status uint16
	// Hold is how long the socket is held after the last message.
	Hold time.Duration
	// Silent reports that the agent does not hear why: the session's OutFarewell is not
	// sent.
	Silent bool
}

// Dialect is a codec with the numbers of its dialect.
type Dialect struct {
	Codec
	Limits session.Limits
	// Kind is the kind of its messages.
	Kind wsconn.Kind
	// MaxUnregistered, MaxMessage and MaxUnasked bound a message, in bytes: until the
	// agent is registered, from then on, and while nothing is asked of the agent.
	MaxUnregistered, MaxMessage, MaxUnasked int64
	// Patience is how long a registration is tried again while credentials cannot
	// be looked up.
	Patience time.Duration
	// MinAge is the age below which no socket is closed.
	MinAge time.Duration
	// Paced reports that agents cannot be told when to come back, so that they are
	// closed one by one.
	Paced bool
}
