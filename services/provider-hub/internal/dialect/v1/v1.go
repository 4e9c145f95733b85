// Package v1 is the form of dialect v1: JSON text messages, one object to a message, that
// name the request they belong to. The public agents of this ecosystem speak it.
//
// A message is an envelope with type, request_id and payload. Answers are read in one
// pass and without allocating, because nearly all messages are pieces of answers. What an
// agent says of itself is decoded by encoding/json. An agent's "ack" is a whole answer or
// the outcome of a warm-up. Only the name distinguishes the two, and no request has the
// name of a warm-up. Replies to tasks name their request and their challenge.
package v1

import (
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// Sizes, in bytes.
const (
	// maxFrame is the largest message that agents take. They drop the connection, with
	// everything under way on it, over a larger one.
	maxFrame = 1 << 20
	// envelopeSize is more than an inference has around its body: names of at most 200
	// characters, ids of less than 64, and some 120 characters of JSON.
	envelopeSize = 1 << 10
	// maxAnswer bounds a message of a registered agent, because a whole answer is one
	// message. maxNews bounds messages that are no answers.
	maxAnswer = 16 << 20
	maxNews   = 1 << 20
	// maxUnregistered bounds a message of a socket that is not registered: the
	// registration has every model with its hashes.
	maxUnregistered = 128 << 10
)

// maxStreams bounds the requests at once, because agents take no more.
const maxStreams = 50

// options read agents' JSON. Answers of engines lie two levels deep in it.
var options = jsonscan.Options{MaxDepth: jsonscan.DefaultMaxDepth + 2}

// Config has what differs between hubs. Package gate fills in the defaults.
type Config struct {
	// SessionTimeout is how long an agent may be without a heartbeat.
	SessionTimeout time.Duration
	// RefuseHold is how long the socket of a refused agent is held, because an agent that
	// is closed at once dials again at once, and gives up for good.
	RefuseHold time.Duration
	// MinAge is the age below which no socket is closed.
	MinAge time.Duration
	// Patience is how long a registration is tried again while credentials cannot
	// be looked up.
	Patience time.Duration
	// MaxTotal is how long agents let an answer run.
	MaxTotal time.Duration
}

// codec reads and writes messages.
type codec struct{ refuseHold time.Duration }

// New returns the dialect.
func New(c Config) *dialect.Dialect {
	return &dialect.Dialect{
		Codec: codec{refuseHold: c.RefuseHold},
		Limits: session.Limits{
			Name: "v1", Streams: maxStreams, Capacity: maxStreams, Silence: c.SessionTimeout, Total: c.MaxTotal,
			WarmsUp: true, Verifies: true, Fits: fits,
		},
		Kind:            wsconn.Text,
		MaxUnregistered: maxUnregistered, MaxMessage: maxAnswer, MaxUnasked: maxNews,
		Patience: c.Patience, MinAge: c.MinAge, Paced: true,
	}
}

// fits refuses a request or task that no message can carry. The body becomes a part of the
// message. So it must be JSON, because other bytes could be taken for more than a body,
// and it must be text, because the agent might otherwise drop the connection.
func fits(r *session.Request) error {
	if r.Challenge != nil && r.Challenge.Task != nil {
		_, payload, err := taskOf(r)
		switch {
		case err != nil:
			return session.ErrNotSendable
		case len(payload) > maxFrame-envelopeSize:
			return session.ErrTooLarge
		}
		return nil
	}
	if len(r.Body) > maxFrame-envelopeSize {
		return session.ErrTooLarge
	}
	strict := jsonscan.Options{MaxDepth: options.MaxDepth, RefuseInvalidUTF8: true}
	if jsonscan.New(r.Body, strict).Valid() != nil {
		return session.ErrNotSendable
	}
	return nil
}
