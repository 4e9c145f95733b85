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
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/probe"
)

const (
	// silenceAfter is after how long without a message of any hub all hubs are asked.
	silenceAfter = 12 * time.Second
	// eagerPause and eagerTries are for the time after a connection, because hubs that lost
	// the connection, too, may be back a little later.
	eagerPause = 500 * time.Millisecond
	eagerTries = 10
	// eagerLook and calmLook are the pauses between two looks at who was heard and at sessions
	// that nothing confirms, while hubs are asked eagerly and later.
	eagerLook, calmLook = 100 * time.Millisecond, time.Second
)

// subscription is a subject with its handler.
type subscription struct {
	subject string
	handle  func(context.Context, bus.Message)
}

// Run listens until ctx ends.
func (l *Listener) Run(ctx context.Context) (err error) {
	for _, s := range []subscription{
		{bus.SubjectPresenceAll, l.presence}, {bus.SubjectAttemptsAll, l.attempts},
		{bus.SubjectClaims, l.claims}, {bus.SubjectPenalty, l.penalty}, {bus.SubjectShapes, l.shapes},
		{bus.SubjectTrustSync, func(context.Context, bus.Message) { l.deps.Sync() }},
	} {
		sub, err := l.deps.Bus.Subscribe(s.subject, "", s.handle)
		if err != nil {
			return fmt.Errorf("listen to %s: %w", s.subject, err)
		}
		// Stop fails on a connection that is closed already, and then nothing is left to stop.
		defer func() { _ = sub.Stop() }()
	}
	var asking inquiry
	l.deps.Bus.Watch(ctx, func(fresh bool) time.Duration {
		now := l.deps.Clock.Now()
		if fresh {
			asking = inquiry{began: now}
			l.deps.Offers.Confirm(now) // nothing could confirm the sessions meanwhile
		}
		if asking.due(now, time.UnixMilli(l.heard.Load())) {
			l.ask(ctx)
		}
		l.deps.Offers.Expire(now)
		return asking.pause(time.UnixMilli(l.heard.Load()))
	})
	return nil
}

// inquiry decides when hubs are asked: at once after a connection, then every eagerPause
// until a hub is heard, and whenever none was heard for silenceAfter.
type inquiry struct {
	began, asked time.Time
	tries        int
}

// eager reports whether nobody was heard since the connection, and eagerTries are not used up.
func (i *inquiry) eager(heard time.Time) bool { return i.tries < eagerTries && heard.Before(i.began) }

// pause returns the time until the next look.
func (i *inquiry) pause(heard time.Time) time.Duration {
	if i.eager(heard) {
		return eagerLook
	}
	return calmLook
}

func (i *inquiry) due(now, heard time.Time) bool {
	pause := silenceAfter
	if i.eager(heard) {
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
