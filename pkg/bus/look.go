package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamState is a stream as its server has it.
type StreamState struct {
	Messages, Bytes uint64
	// Newest is when the newest message was stored; zero when none was.
	Newest time.Time
}

// ConsumerState is a durable consumer as its server has it.
type ConsumerState struct {
	// Pending counts the messages that were not delivered yet, Unacknowledged those that were delivered
	// and are not acknowledged.
	Pending        uint64
	Unacknowledged int
}

// ErrMissing is the error for a stream or a consumer that does not exist.
var ErrMissing = errors.New("it does not exist")

// OwnStreams returns the names of the streams that a service owns, in order.
func OwnStreams(service string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		if owners[name] == service {
			names = append(names, name)
		}
	}
	return names
}

// Durables returns the names of the durable consumers of a stream, in order.
func Durables(stream string) []string {
	return slices.Sorted(maps.Values(consumers[stream]))
}

// LookAtStream reads the state of a stream.
func (c *Conn) LookAtStream(ctx context.Context, stream string) (StreamState, error) {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return StreamState{}, ErrMissing
	}
	if err != nil {
		return StreamState{}, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	state := s.CachedInfo().State
	return StreamState{Messages: state.Msgs, Bytes: state.Bytes, Newest: state.LastTime}, nil
}

// LookAtConsumer reads the state of a durable consumer. A service may look at its own, and at those of
// the streams that it owns.
func (c *Conn) LookAtConsumer(ctx context.Context, stream, durable string) (ConsumerState, error) {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, stream, durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return ConsumerState{}, ErrMissing
	}
	if err != nil {
		return ConsumerState{}, fmt.Errorf("look at consumer %s: %w", durable, err)
	}
	info := consumer.CachedInfo()
	return ConsumerState{Pending: info.NumPending, Unacknowledged: info.NumAckPending}, nil
}
