package events

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/traffic"
)

// The bounds of a message.
const (
	maxSessions     = 1_000
	maxEnded        = 10_000
	maxAttempts     = 4_096
	maxCapabilities = 32
	maxShapes       = 384
	maxHubID        = 32
	maxModelID      = 128
	maxText         = 128
	maxShortText    = 64
	maxEngine       = 32
	maxTag          = 32
	maxWindow       = 1 << 30
	maxCapacity     = 1 << 20
)

var errBounds = errors.New("a message out of bounds")

// Penalty is a change of a penalty.
type Penalty struct {
	Verdict probe.VerdictID
	// State is a state of settlement's.
	State    string
	Revision int64
}

// Deps are the parts that a Listener feeds. Every field must be set.
type Deps struct {
	Bus     *bus.Conn
	Clock   clock.Clock
	Log     *slog.Logger
	Offers  *offers.View
	Traffic *traffic.Counter
	Pairing *pairing.Matcher
	// PairClock is the clock by which pairs go: the database's, which all replicas share.
	PairClock clock.Clock
	Claims    *claims.Box
	// Shapes takes what requests looked like in an hour.
	Shapes func(ctx context.Context, hour time.Time, counts map[cover.Shape]int64)
	// Penalty hears of a change of a penalty.
	Penalty func(ctx context.Context, p Penalty)
	// Sync is asked for reports of all providers. It must not block.
	Sync func()
}

// Listener feeds what is heard to the parts of the verifier.
type Listener struct {
	deps Deps

	heard   atomic.Int64 // Unix milliseconds of the last presence message
	refused atomic.Int64
	started atomic.Bool
	first   chan struct{} // closed when a first full report is complete
}

// NewListener makes a listener; Run starts it.
func NewListener(deps Deps) *Listener { return &Listener{deps: deps, first: make(chan struct{})} }

// First returns a channel that is closed once a hub's full report has been taken over.
func (l *Listener) First() <-chan struct{} { return l.first }

// Refused counts messages, and parts of messages, that were out of bounds.
func (l *Listener) Refused() int64 { return l.refused.Load() }

// shapesFromProto reads a report of an hour. A report with a shape that there is not, or
// that stands twice, is refused whole.
func shapesFromProto(m *eventsv1.ShapeReport) (time.Time, map[cover.Shape]int64, error) {
	if m.GetHour() == nil || m.GetHour().CheckValid() != nil || len(m.GetShapes()) > maxShapes {
		return time.Time{}, nil, errBounds
	}
	counts := make(map[cover.Shape]int64, len(m.GetShapes()))
	for _, s := range m.GetShapes() {
		shape := cover.Shape{Streamed: s.GetStreamed(), Greedy: s.GetGreedy(), Logprobs: s.GetLogprobs(),
			Tools: s.GetTools(), Length: uint8(min(s.GetPromptLength(), cover.MaxLength))}
		if _, twice := counts[shape]; twice || s.GetPromptLength() > cover.MaxLength || s.GetRequests() < 1 ||
			s.GetRequests() > cover.MaxCount {
			return time.Time{}, nil, errBounds
		}
		counts[shape] = s.GetRequests()
	}
	return m.GetHour().AsTime(), counts, nil
}

// text reports whether s is printable and has between minBytes and maxBytes bytes.
func text(s string, minBytes, maxBytes int) bool {
	if len(s) < minBytes || len(s) > maxBytes || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
