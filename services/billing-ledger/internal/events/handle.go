package events

import (
	"context"
	"time"

	"svc.internal/pkg/bus"
)

// Bus is the part of a connection to NATS that the consumer and the reviews use. A
// *bus.Conn implements it, and so does a simulator's.
type Bus interface {
	Consume(ctx context.Context, cfg bus.ConsumerConfig, handler func(context.Context, []bus.Msg) error) error
	Waiting(ctx context.Context, stream, durable string) (time.Duration, error)
	Publish(ctx context.Context, subject string, data []byte, header bus.Header) error
	EnsureStream(ctx context.Context, cfg bus.StreamConfig) error
	PublishStreamAsync(ctx context.Context, subject, msgID string, data []byte, header bus.Header) (*bus.Future, error)
}

// Handle does with a batch what Run does. After an error the batch must be delivered
// again.
func (c *Consumer) Handle(ctx context.Context, msgs []bus.Msg) error {
	err := c.handle(ctx, msgs)
	c.note(msgs, err)
	return err
}
