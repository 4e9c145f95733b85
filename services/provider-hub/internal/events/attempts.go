package events

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	attemptQueue = 4096
	attemptBatch = 256
	attemptDelay = 50 * time.Millisecond
)

// Attempts reports to the routers how attempts ended.
type Attempts struct {
	hubID   string
	bus     *bus.Conn
	log     *slog.Logger
	queue   chan dispatch.Report
	dropped atomic.Int64
}

// NewAttempts returns a queue, which Run empties.
func NewAttempts(hubID string, conn *bus.Conn, log *slog.Logger) *Attempts {
	return &Attempts{hubID: hubID, bus: conn, log: log, queue: make(chan dispatch.Report, attemptQueue)}
}

// Add queues a report. It drops the report when the queue is full.
func (a *Attempts) Add(r dispatch.Report) {
	select {
	case a.queue <- r:
	default:
		a.dropped.Add(1)
	}
}

// Probed queues the outcome of a warm-up, by which routers that suspect the node judge
// it. A warm-up that the engine was not asked for says nothing.
func (a *Attempts) Probed(who session.Identity, w session.Warmed) {
	r := dispatch.Report{
		Probe: true, Provider: who.ProviderID, Node: who.NodeID, Epoch: who.Epoch, Model: w.Model,
		Outcome: dispatch.Failed, Duration: w.LoadTime,
	}
	switch {
	case w.Success:
		r.Outcome = dispatch.Served
	case w.NotTried:
		return
	}
	a.Add(r)
}

// Dropped counts the reports that found no room.
func (a *Attempts) Dropped() int64 { return a.dropped.Load() }

// Run publishes in batches until ctx ends, and then the rest.
func (a *Attempts) Run(ctx context.Context) error {
	for {
		select {
		case r := <-a.queue:
			a.publish(ctx, a.gather(ctx, r))
		case <-ctx.Done():
			rest := context.WithoutCancel(ctx)
			for {
				select {
				case r := <-a.queue:
					a.publish(rest, a.gather(rest, r))
				default:
					return nil
				}
			}
		}
	}
}

// gather waits a moment for further reports.
func (a *Attempts) gather(ctx context.Context, first dispatch.Report) []*eventsv1.Attempt {
	batch := []*eventsv1.Attempt{attemptOf(first)}
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	for len(batch) < attemptBatch {
		select {
		case r := <-a.queue:
			batch = append(batch, attemptOf(r))
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

func (a *Attempts) publish(ctx context.Context, batch []*eventsv1.Attempt) {
	data, err := encode(&eventsv1.AttemptBatch{HubId: a.hubID, Attempts: batch})
	if err == nil {
		err = a.bus.Publish(ctx, bus.SubjectAttempts(a.hubID), data, nil)
	}
	if err != nil {
		a.log.Warn("attempts were not reported", "count", len(batch), "error", err)
	}
}
