package flow

import (
	"context"
	"net/http"
	"time"

	"svc.internal/pkg/fingerprint"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
)

// Challenge is what a hub is asked to put to a session.
type Challenge struct {
	// ID is 1 to 64 characters of [A-Za-z0-9._-]. Agents see it with a fingerprint alone.
	ID      string
	Model   string
	Timeout time.Duration
	// MaxBytes bounds the answer, at most statistic.MaxBody.
	MaxBytes int
	// Body, Stream and Embeddings are of an inference.
	Body               []byte
	Stream, Embeddings bool
	// Fingerprint is asked for where it is set.
	Fingerprint *fingerprint.Challenge
}

// End is how a challenge ended.
type End uint8

// The ends.
const (
	// Answered has the whole answer.
	Answered End = iota + 1
	// Declined means that the agent or its engine said that it cannot.
	Declined
	// Late means that no whole answer came in time.
	Late
	// Lost means that the connection was lost.
	Lost
	// Invalid means that the answer broke the protocol or a bound.
	Invalid
	// HubStopped means that the hub stops.
	HubStopped
)

// Reply is what came back.
type Reply struct {
	End    End
	Status int
	// Error is the agent's or the hub's word on why.
	Error string
	// Data is the answer, at most Challenge.MaxBytes bytes, and Chunks when it came.
	Data   []byte
	Chunks []judge.Chunk
	// Objects reports that a stream came as JSON objects (v1) and not as events.
	Objects bool
	// RoundTrip is the connection's; 0 where none was measured.
	RoundTrip time.Duration
	// Took is how long the challenge took.
	Took time.Duration
}

// Hubs put challenges to sessions. An error says that the challenge did not begin, or that
// the hub or the caller is at fault; its fault.Reason is the hub's.
type Hubs interface {
	Challenge(ctx context.Context, on offers.Seat, c Challenge) (Reply, error)
}

// failed reports whether the provider failed, and did not only refuse.
func (r Reply) failed() bool {
	switch r.End {
	case Late, Lost, Invalid:
		return true
	case Declined:
		return r.Status >= http.StatusInternalServerError
	default:
		return false
	}
}
