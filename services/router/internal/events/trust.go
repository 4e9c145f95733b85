package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/trust"
)

// readPause is the time between two tries to read what the verifier said last.
const readPause = 5 * time.Second

// TrustListenerDeps are the parts a TrustListener works with.
type TrustListenerDeps struct {
	Bus   *bus.Conn
	Trust *trust.Registry
	Clock clock.Clock
	Log   *slog.Logger
}

// TrustListener hears what the verifier says of providers. It reads the last report of
// each provider at its start and after each reconnect, so that it knows all of them also
// while no verifier runs, and it hears new reports at once. It asks the verifier for its
// reports as often as hubs are asked for their presence. Without the stream it knows what
// it hears.
type TrustListener struct {
	deps TrustListenerDeps

	heard   atomic.Int64 // Unix milliseconds of the last report
	refused atomic.Int64
	read    chan struct{} // closed when the stream has been read once

	full atomic.Bool // a report has found no room, and the log says so
}

// NewTrustListener makes a listener; Run starts it.
func NewTrustListener(deps TrustListenerDeps) *TrustListener {
	return &TrustListener{deps: deps, read: make(chan struct{})}
}

// Read returns a channel that is closed once the last report of each provider has been
// read.
func (l *TrustListener) Read() <-chan struct{} { return l.read }

// Refused counts reports, and models in reports, that were out of bounds.
func (l *TrustListener) Refused() int64 { return l.refused.Load() }

// Run listens until ctx ends.
func (l *TrustListener) Run(ctx context.Context) error {
	sub, err := l.deps.Bus.Subscribe(bus.SubjectTrustAll, "", func(ctx context.Context, m bus.Message) {
		l.heard.Store(l.deps.Clock.Now().UnixMilli())
		l.take(ctx, m)
	})
	if err != nil {
		return fmt.Errorf("listen to trust: %w", err)
	}
	var asking inquiry
	var reading reading
	l.deps.Bus.Watch(ctx, func(fresh bool) time.Duration {
		now := l.deps.Clock.Now()
		if fresh {
			asking.begin(now)
			reading.begin()
		}
		if asking.due(now, time.UnixMilli(l.heard.Load())) {
			l.ask(ctx)
		}
		if reading.due(now) {
			reading.ended(l.catchUp(ctx, reading.tries), l.deps.Clock.Now())
		}
		return asking.pause(time.UnixMilli(l.heard.Load()))
	})
	// Stop fails on a connection that is closed already, and then there is nothing left to stop.
	_ = sub.Stop()
	return nil
}

// reading decides when the stream is read: once after each connection, and again after
// readPause while it fails.
type reading struct {
	done  bool
	tries int
	next  time.Time
}

func (r *reading) begin() { *r = reading{} }

func (r *reading) due(now time.Time) bool { return !r.done && !now.Before(r.next) }

func (r *reading) ended(ok bool, now time.Time) {
	r.done, r.next = ok, now.Add(readPause)
	r.tries++
}

// ask asks the verifier for its reports of all providers.
func (l *TrustListener) ask(ctx context.Context) {
	if err := l.deps.Bus.Publish(ctx, bus.SubjectTrustSync, nil, nil); err != nil {
		l.deps.Log.WarnContext(ctx, "the verifier could not be asked for its reports", "error", err)
	}
}

// catchUp reads the last report of each provider, and reports whether it has read all.
func (l *TrustListener) catchUp(ctx context.Context, tries int) bool {
	n, err := l.deps.Bus.ReadLast(ctx, bus.TrustStream, func(m bus.Message) { l.take(ctx, m) })
	if err != nil {
		if tries == 0 && ctx.Err() == nil {
			l.deps.Log.WarnContext(ctx, "what the verifier said last could not be read, which is tried again",
				"error", err)
		}
		return false
	}
	l.deps.Log.InfoContext(ctx, "what the verifier said last was read", "providers", n)
	select {
	case <-l.read:
	default:
		close(l.read)
	}
	return true
}

// take takes over a report. Two reports may be taken at a time.
func (l *TrustListener) take(ctx context.Context, m bus.Message) {
	var msg eventsv1.TrustReport
	if len(m.Data) > maxTrustReport || proto.Unmarshal(m.Data, &msg) != nil {
		l.refused.Add(1)
		return
	}
	report, refused, err := trustFromProto(&msg)
	l.refused.Add(int64(refused))
	if err != nil || m.Subject != bus.SubjectTrust(report.Provider) {
		l.refused.Add(1)
		return
	}
	if !l.deps.Trust.Apply(report) && l.full.CompareAndSwap(false, true) {
		l.deps.Log.ErrorContext(ctx, "there is no room for all that the verifier says; svc.router.trust_dropped counts",
			"provider_id", report.Provider)
	}
}
