// Package events is what the verifier hears and says on NATS.
//
// It hears presence (who offers what, and which references there are), ended attempts
// (traffic, and the pairs of family F), usage (what engines claimed, and what offers
// earned), changes of penalties, and shapes of requests. It says what it makes of each
// provider on trust.v1. Core messages may be lost, and none carries evidence but for the
// claims of the verifier's own probes. Everything is bounded; what is out of bounds is
// counted and dropped.
//
// Usage is consumed from the stream by one consumer that the replicas share, so that an
// absurd claim is counted once and not missed while no verifier runs. Each replica passes
// on what it consumed, so that all replicas know the claims: a probe asks in the replica
// that carried it out.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

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

const (
	// silenceAfter is after how long without a message of any hub all hubs are asked.
	silenceAfter = 12 * time.Second
	// eagerPause and eagerTries are for the time after a connection, because hubs that lost
	// the connection, too, may be back a little later.
	eagerPause = 500 * time.Millisecond
	eagerTries = 10
	// connectionPoll is how often the connection is looked at.
	connectionPoll = 100 * time.Millisecond
	// expiryPoll is how often sessions that nothing confirms are dropped.
	expiryPoll = time.Second
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
	Claims  *claims.Box
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

// subscription is a subject with its handler.
type subscription struct {
	subject string
	handle  func(context.Context, bus.Message)
}

// Run listens until ctx ends.
func (l *Listener) Run(ctx context.Context) (err error) {
	for _, s := range []subscription{
		{bus.SubjectPresenceAll, l.presence}, {bus.SubjectAttemptsAll, l.attempts},
		{bus.SubjectClaims, l.claim}, {bus.SubjectPenalty, l.penalty}, {bus.SubjectShapes, l.shapes},
		{bus.SubjectTrustSync, func(context.Context, bus.Message) { l.deps.Sync() }},
	} {
		sub, err := l.deps.Bus.Subscribe(s.subject, "", s.handle)
		if err != nil {
			return fmt.Errorf("listen to %s: %w", s.subject, err)
		}
		// Stop fails on a connection that is closed already, and then nothing is left to stop.
		defer func() { _ = sub.Stop() }()
	}
	connected := false
	var asking inquiry
	var expired time.Time
	for {
		was := connected
		connected = l.deps.Bus.Connected()
		now := l.deps.Clock.Now()
		if connected && !was {
			asking = inquiry{began: now}
			l.deps.Offers.Confirm(now) // nothing could confirm the sessions meanwhile
		}
		if connected && asking.due(now, time.UnixMilli(l.heard.Load())) {
			l.ask(ctx)
		}
		if connected && now.Sub(expired) >= expiryPoll {
			l.deps.Offers.Expire(now)
			expired = now
		}
		if clock.Sleep(ctx, connectionPoll) != nil {
			return nil
		}
	}
}

// inquiry decides when hubs are asked: at once after a connection, then every eagerPause
// until a hub is heard, and whenever none was heard for silenceAfter.
type inquiry struct {
	began, asked time.Time
	tries        int
}

func (i *inquiry) due(now, heard time.Time) bool {
	pause := silenceAfter
	if i.tries < eagerTries && heard.Before(i.began) {
		pause = eagerPause
	}
	if i.tries > 0 && (now.Sub(i.asked) < pause || now.Sub(heard) < pause) {
		return false
	}
	i.asked = now
	i.tries++
	return true
}

func (l *Listener) ask(ctx context.Context) {
	if err := l.deps.Bus.Publish(ctx, bus.SubjectPresenceSync, nil, nil); err != nil {
		l.deps.Log.WarnContext(ctx, "hubs could not be asked for their presence", "error", err)
	}
}

func (l *Listener) presence(_ context.Context, m bus.Message) {
	var msg eventsv1.Presence
	if proto.Unmarshal(m.Data, &msg) != nil {
		l.refused.Add(1)
		return
	}
	report, refused, err := reportFromProto(&msg)
	l.refused.Add(int64(refused))
	if err != nil || m.Subject != bus.SubjectPresence(report.Hub) {
		l.refused.Add(1)
		return
	}
	now := l.deps.Clock.Now()
	l.heard.Store(now.UnixMilli())
	if l.deps.Offers.Apply(report, now) && l.started.CompareAndSwap(false, true) {
		close(l.first)
	}
}

func (l *Listener) penalty(ctx context.Context, m bus.Message) {
	var msg eventsv1.PenaltyChanged
	var id probe.VerdictID
	if proto.Unmarshal(m.Data, &msg) != nil || id.Scan(msg.GetPenaltyId()) != nil || msg.GetRevision() <= 0 ||
		!text(msg.GetState(), 1, maxShortText) {
		l.refused.Add(1)
		return
	}
	l.deps.Penalty(ctx, Penalty{Verdict: id, State: msg.GetState(), Revision: msg.GetRevision()})
}

func (l *Listener) shapes(ctx context.Context, m bus.Message) {
	var msg eventsv1.ShapeReport
	if proto.Unmarshal(m.Data, &msg) != nil {
		l.refused.Add(1)
		return
	}
	hour, counts, err := shapesFromProto(&msg)
	if err != nil {
		l.refused.Add(1)
		return
	}
	l.deps.Shapes(ctx, hour, counts)
}

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

// text reports whether s is printable and has between least and most bytes.
func text(s string, least, most int) bool {
	if len(s) < least || len(s) > most || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
