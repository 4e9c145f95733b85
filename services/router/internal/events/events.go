// Package events listens to what hubs publish: presence, from which the router's view is
// made, and ended attempts, from which it learns. Both may be lost. A full report mends
// the view within ten seconds. This package asks for a full report when it starts, when
// the connection is back, and when no hub has been heard for SilenceAfter.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
)

const (
	// SilenceAfter is after how long without a message of any hub all hubs are asked.
	SilenceAfter = 12 * time.Second
	// eagerLook and calmLook are the pauses between two looks at who was heard, while hubs are
	// asked eagerly and later.
	eagerLook, calmLook = 100 * time.Millisecond, time.Second
	// eagerPause and eagerTries are for the time after a reconnect, because hubs that
	// lost the connection, too, may be back a little later than the router.
	eagerPause = 500 * time.Millisecond
	eagerTries = 10
)

// ListenerDeps are the parts a Listener works with.
type ListenerDeps struct {
	Bus    *bus.Conn
	View   *presence.View
	Picker *pick.Picker
	Clock  clock.Clock
	Log    *slog.Logger
}

// Listener feeds the view and the picker.
type Listener struct {
	deps ListenerDeps

	heard   atomic.Int64 // Unix milliseconds of the last presence message
	refused atomic.Int64
	first   chan struct{} // closed when a first full report is complete
	started atomic.Bool   // whether first is closed
}

// NewListener makes a listener; Run starts it.
func NewListener(deps ListenerDeps) *Listener {
	return &Listener{deps: deps, first: make(chan struct{})}
}

// First returns a channel that is closed once a hub's full report has been taken over
// completely.
func (l *Listener) First() <-chan struct{} { return l.first }

// Refused counts messages and sessions that were out of bounds.
func (l *Listener) Refused() int64 { return l.refused.Load() }

// Run listens until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	presenceSub, err := l.deps.Bus.Subscribe(bus.SubjectPresenceAll, "", l.presence)
	if err != nil {
		return fmt.Errorf("listen to presence: %w", err)
	}
	attemptSub, err := l.deps.Bus.Subscribe(bus.SubjectAttemptsAll, "", l.attempts)
	if err != nil {
		return errors.Join(fmt.Errorf("listen to attempts: %w", err), presenceSub.Stop())
	}
	var asking inquiry
	l.deps.Bus.Watch(ctx, func(fresh bool) time.Duration {
		now := l.deps.Clock.Now()
		if fresh {
			asking.begin(now)
		}
		if asking.due(now, time.UnixMilli(l.heard.Load())) {
			l.ask(ctx)
		}
		return asking.pause(time.UnixMilli(l.heard.Load()))
	})
	// Both fail on a connection that is closed already, and then there is nothing left to stop.
	_ = presenceSub.Stop()
	_ = attemptSub.Stop()
	return nil
}

// inquiry decides when hubs are asked: at once after a connection, then every eagerPause
// until a hub is heard, and whenever none was heard for SilenceAfter.
type inquiry struct {
	began time.Time
	asked time.Time
	tries int
}

func (i *inquiry) begin(now time.Time) { *i = inquiry{began: now} }

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
	pause := SilenceAfter
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

// ask asks every hub for a full report.
func (l *Listener) ask(ctx context.Context) {
	if err := l.deps.Bus.Publish(ctx, bus.SubjectPresenceSync, nil, nil); err != nil {
		l.deps.Log.WarnContext(ctx, "hubs could not be asked for their presence", "error", err)
	}
}

func (l *Listener) presence(_ context.Context, m bus.Message) {
	var msg eventsv1.Presence
	if err := proto.Unmarshal(m.Data, &msg); err != nil {
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
	if l.deps.View.Apply(report, now) && l.started.CompareAndSwap(false, true) {
		close(l.first)
	}
}

func (l *Listener) attempts(_ context.Context, m bus.Message) {
	var msg eventsv1.AttemptBatch
	if err := proto.Unmarshal(m.Data, &msg); err != nil || len(msg.GetAttempts()) > maxAttempts {
		l.refused.Add(1)
		return
	}
	for _, a := range msg.GetAttempts() {
		if attempt, ok := attemptFromProto(a); ok {
			l.deps.Picker.Ended(attempt)
		} else {
			l.refused.Add(1)
		}
	}
}
