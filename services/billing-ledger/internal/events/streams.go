package events

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/bus"
)

// lookTimeout bounds a look at all streams.
const lookTimeout = 2 * time.Second

// Streams looks at the streams that a service owns.
type Streams struct {
	Bus     *bus.Conn
	Service string
}

// StreamLook is a stream with its durable consumers. Fault is why it could not be looked at; empty when
// it could.
type StreamLook struct {
	Name string
	bus.StreamState
	Consumers []ConsumerLook
	Fault     string
}

// ConsumerLook is a durable consumer. Fault is as in StreamLook.
type ConsumerLook struct {
	Name string
	bus.ConsumerState
	Fault string
}

// Look reads the state of every stream. What cannot be looked at hides nothing else.
func (s Streams) Look(ctx context.Context) []StreamLook {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var all []StreamLook
	for _, name := range bus.OwnStreams(s.Service) {
		look := StreamLook{Name: name}
		var err error
		if look.StreamState, err = s.Bus.LookAtStream(ctx, name); err != nil {
			look.Fault = faultOf(err)
			all = append(all, look)
			continue
		}
		for _, durable := range bus.Durables(name) {
			consumer := ConsumerLook{Name: durable}
			if consumer.ConsumerState, err = s.Bus.LookAtConsumer(ctx, name, durable); err != nil {
				consumer.Fault = faultOf(err)
			}
			look.Consumers = append(look.Consumers, consumer)
		}
		all = append(all, look)
	}
	return all
}

// faultOf says in words why something could not be looked at.
func faultOf(err error) string {
	if errors.Is(err, bus.ErrMissing) {
		return "does not exist"
	}
	return "NATS did not answer"
}
