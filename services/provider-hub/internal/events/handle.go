package events

import (
	"context"

	"svc.internal/pkg/bus"
)

// Bus is the part of a connection to NATS that usage needs: a *bus.Conn, or a
// simulator's.
type Bus interface {
	EnsureStream(ctx context.Context, cfg bus.StreamConfig) error
	PublishStreamAsync(ctx context.Context, subject, msgID string, data []byte, header bus.Header) (*bus.Future, error)
	Subscribe(subject, queue string, handler func(context.Context, bus.Message)) (*bus.Subscription, error)
}

// PublishWaiting publishes the usage that waits now, as Publish does.
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

// SweepEarlier publishes what an earlier process left behind, as Publish does at first.
func (u *Usage) SweepEarlier(ctx context.Context) {
	u.sweep(ctx, u.opened)
	u.sweepVoids(ctx, u.opened)
}

// Sweep publishes again what is unsettled for too long, as Publish does now and then.
func (u *Usage) Sweep(ctx context.Context) {
	before := u.clock.Now().Add(-u.resettle)
	u.sweep(ctx, before)
	u.sweepVoids(ctx, before)
}

// OnSettled takes a notice of settled requests.
func (u *Usage) OnSettled(notice []byte) error { return onNotice(notice, u.Settled) }
