// Package dialect is what must be known to speak with an agent: how its messages are
// read and written, and the numbers that differ from dialect to dialect.
//
// A dialect is form only. It has no lock and no state, and it knows no session: it
// makes an Inbound of a message and a message of an Outbound. What a message leads
// to is for package session to decide, how long an agent waits for package gate.
package dialect

import (
	"time"

	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// Codec is how messages are read and written. It is safe for concurrent use.
type Codec interface {
	// Decode reads a message, and sets all of in. It returns a *session.Malformed
	// for a message that cannot be read. What in has of the message aliases it.
	Decode(msg []byte, in *session.Inbound) error
	// Name finds the request that a message belongs to of which only the beginning
	// is here; nil where that is not known.
	Name(head []byte) []byte
	// Append appends the head of a message to dst. The body follows the head as it
	// is, and the tail follows the body.
	Append(dst []byte, out *session.Outbound) (head, body []byte, tail string, err error)
	// Ending says how the connection is closed for a reason.
	Ending(why *session.CloseReason) Ending
}

// Ending is how a connection is closed.
type Ending struct {
	// Status is that of the close frame.
	Status uint16
	// Hold is how long the socket is held behind the last message.
	Hold time.Duration
	// Silent reports that the agent is not told why: the session's OutFarewell is
	// not sent.
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
