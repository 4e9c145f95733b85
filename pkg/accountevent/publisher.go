package accountevent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
)

const (
	// lookInterval is the pause between two looks into the outbox, and batchTimeout bounds one.
	lookInterval = 2 * time.Second
	batchTimeout = 10 * time.Second
	// batch bounds what is taken at once.
	batch = 100
)

// Pause is how long an event that was published waits for its note before it is published
// again: half a minute, and twice as long with each time, up to MaxPause. An outbox uses them.
const (
	Pause    = 30 * time.Second
	MaxPause = 30 * time.Minute
)

// Outbox keeps events until billing-ledger has stored them.
type Outbox interface {
	// TakeAccountEvents returns up to limit events that are due, the oldest first, and puts
	// each off by its pause. Of two callers at once each gets others.
	TakeAccountEvents(ctx context.Context, limit int) ([]Event, error)
	// DropAccountEvents forgets events. One that is not there is no error.
	DropAccountEvents(ctx context.Context, stored []ID) error
}

// Bus is what a publisher needs of a connection.
type Bus interface {
	EnsureStream(ctx context.Context, cfg bus.StreamConfig) error
	PublishStream(ctx context.Context, subject, msgID string, data []byte, header bus.Header) (bool, error)
	Subscribe(subject, queue string, handler func(context.Context, bus.Message)) (*bus.Subscription, error)
}

// Publisher publishes an outbox.
type Publisher struct {
	Outbox Outbox
	Bus    Bus
	// Notes is the subject of the producer's notes, and Queue is shared by its replicas.
	Notes, Queue string
	Log          *slog.Logger
	// Still leaves out looks that would find nothing.
	Still *clock.Still
}

// Run publishes until ctx ends. What it cannot publish waits.
func (p *Publisher) Run(ctx context.Context) error {
	notes, err := p.Bus.Subscribe(p.Notes, p.Queue, p.Noted)
	if err != nil {
		return fmt.Errorf("listen for notes of events: %w", err)
	}
	ensured := false
	for range clock.EveryUnless(ctx, lookInterval, p.Still) {
		limited, cancel := context.WithTimeout(ctx, batchTimeout)
		if !ensured {
			ensured = p.Bus.EnsureStream(limited, bus.AccountStream) == nil
		}
		if err := p.Still.Learn(p.Publish(limited)); err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "events of accounts were not published", "error", err)
		}
		cancel()
	}
	_ = notes.Stop() // it fails where the connection is closed, which ends it too
	return nil
}

// Publish publishes what is due.
func (p *Publisher) Publish(ctx context.Context) error {
	for {
		due, err := p.Outbox.TakeAccountEvents(ctx, batch)
		if err != nil {
			return fmt.Errorf("take events: %w", err)
		}
		var faults []error
		for _, e := range due {
			faults = append(faults, p.publish(ctx, e))
		}
		if err := errors.Join(faults...); err != nil || len(due) < batch {
			return err
		}
	}
}

func (p *Publisher) publish(ctx context.Context, e Event) error {
	subject, data, err := e.Encode()
	if err != nil {
		return err
	}
	_, err = p.Bus.PublishStream(ctx, subject, e.ID.String(), data, nil)
	return err
}

// Noted forgets the events of a note. A note that is lost costs another publication.
func (p *Publisher) Noted(ctx context.Context, m bus.Message) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	stored, err := DecodeNote(m.Data)
	if err == nil {
		err = p.Outbox.DropAccountEvents(ctx, stored)
	}
	if err != nil {
		p.Log.WarnContext(ctx, "events of accounts that are stored were not forgotten", "error", err)
	}
}
