package events

import (
	"context"

	"svc.internal/pkg/bus"
)

// Bus is what usage needs of a connection to NATS; a *bus.Conn, or a
// simulator's.
type Bus interface {
	EnsureStream(ctx context.Context, cfg bus.StreamConfig) error
	PublishStreamAsync(ctx context.Context, subject, msgID string, data []byte, header bus.Header) (*bus.Future, error)
	Subscribe(subject, queue string, handler func(context.Context, bus.Message)) (*bus.Subscription, error)
}

// PublishWaiting publishes what waits now, as Publish does when it comes.
func (u *Usage) PublishWaiting(ctx context.Context) {
	for {
		select {
		case first := <-u.queue:
			u.publish(ctx, batch(u.queue, first))
		case first := <-u.voidQueue:
			u.publishVoids(ctx, batch(u.voidQueue, first))
		default:
			return
		}
	}
}

// SweepEarlier publishes what an earlier process left behind, with which
// Publish begins.
func (u *Usage) SweepEarlier(ctx context.Context) {
	u.sweep(ctx, u.opened)
	u.sweepVoids(ctx, u.opened)
}

// Sweep publishes again what is unsettled for too long, as Publish does now and
// then.
func (u *Usage) Sweep(ctx context.Context) {
	before := u.clock.Now().Add(-u.resettle)
	u.sweep(ctx, before)
	u.sweepVoids(ctx, before)
}

// OnSettled takes a notice of what is settled.
func (u *Usage) OnSettled(notice []byte) error { return onNotice(notice, u.Settled) }
