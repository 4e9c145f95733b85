package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

const (
	maxPendingMessages = 16_384
	maxPendingBytes    = 32 << 20
)

// Publish sends a core message to the present subscribers. Success means that the
// connection has taken it, or has buffered it while it is down. Nothing says whether
// anybody received it. header may be nil.
func (c *Conn) Publish(ctx context.Context, subject string, data []byte, header Header) error {
	if err := c.nc.PublishMsg(outgoing(ctx, subject, data, header)); err != nil {
		return fmt.Errorf("publish on %s: %w", subject, err)
	}
	return nil
}

// Subscription is a live interest in a subject.
type Subscription struct{ sub *nats.Subscription }

// Subscribe calls handler for each core message on subject, one at a time and in order,
// with the sender's trace in the context. Members of the same non-empty queue share the
// messages; with an empty queue each subscriber gets all of them. When Subscribe returns
// on a connection that is up, the server knows the subscription. Every reconnect renews
// it.
func (c *Conn) Subscribe(subject, queue string, handler func(context.Context, Message)) (*Subscription, error) {
	return c.subscribe(subject, queue, maxPendingMessages, handler)
}

func (c *Conn) subscribe(
	subject, queue string, pending int, handler func(context.Context, Message),
) (*Subscription, error) {
	sub, err := c.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
		h := Header(m.Header)
		handler(Extract(context.Background(), h), Message{Subject: m.Subject, Header: h, Data: m.Data})
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if err := sub.SetPendingLimits(pending, maxPendingBytes); err != nil {
		return nil, fmt.Errorf("limit the subscription to %s: %w", subject, err)
	}
	if c.nc.IsConnected() {
		// A connection that was lost just now is no failure, because a reconnect restores
		// the subscription.
		_ = c.nc.FlushTimeout(requestTimeout)
	}
	return &Subscription{sub: sub}, nil
}

// Dropped counts the messages lost because the handler was too slow.
func (s *Subscription) Dropped() int64 {
	n, err := s.sub.Dropped()
	if err != nil {
		return 0 // the subscription has ended
	}
	return int64(n)
}

// Stop ends the subscription; messages that wait for the handler are dropped.
func (s *Subscription) Stop() error {
	if err := s.sub.Unsubscribe(); err != nil {
		return fmt.Errorf("end subscription to %s: %w", s.sub.Subject, err)
	}
	return nil
}
