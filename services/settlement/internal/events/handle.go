package events

import (
	"context"

	"svc.internal/pkg/bus"
)

// Bus is what the consumer needs of a connection to NATS; a *bus.Conn, or a
// simulator's.
type Bus interface {
	Consume(ctx context.Context, cfg bus.ConsumerConfig, handler func(context.Context, []bus.Msg) error) error
}

// Handle does with a batch what Run does. After an error the batch has to come again.
func (c *Consumer) Handle(ctx context.Context, batch []bus.Msg) error { return c.handle(ctx, batch) }
