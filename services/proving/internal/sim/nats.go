package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/bus"
)

// Times of NATS and its consumers.
const (
	dedupFor  = 2 * time.Minute
	ackWait   = 30 * time.Second
	pullAgain = time.Second
)

// nats is the server: one stream of usage with two durable consumers, and core messages
// to hubs. It may lose what it has acknowledged at any time.
type nats struct {
	*node
	net     *network
	wipes   int
	stream  []bus.Msg
	seen    map[string]time.Duration
	readers []*reader
}

// reader is a durable consumer's place in the stream.
type reader struct {
	name   string
	linger time.Duration
	node   *node
	handle func(ctx context.Context, batch []bus.Msg) error
	next   int
	// again are messages that are delivered once more.
	again []bus.Msg
	busy  bool // a pull is due or under way
}

func (s *nats) read(r *reader) { s.readers = append(s.readers, r) }

var errNATS = errors.New("NATS does not answer")

// publish stores a message, as the dice decide.
func (s *nats) publish(from *node, subject, id string, data []byte) (duplicate bool, err error) {
	w := s.world
	if !from.up || !from.reaches(s.node) || s.frozen > w.now {
		return false, errNATS
	}
	if w.chance(10) {
		return false, errNATS
	}
	if at, known := s.seen[id]; known && w.now-at < dedupFor {
		return true, nil
	}
	s.seen[id] = w.now
	if strings.HasPrefix(subject, bus.SubjectVoidPrefix) {
		// It has a stream of its own, which nobody reads, because no provider here signs.
		s.logf("stores %s from %s", id, from.name)
		return false, nil
	}
	s.stream = append(s.stream, bus.Msg{
		Subject: subject, Data: slices.Clone(data), ID: id, Sequence: uint64(len(s.stream) + 1), Deliveries: 1,
		Published: w.time(),
	})
	s.logf("stores %s from %s", id, from.name)
	for _, r := range s.readers {
		s.kick(r, r.linger)
	}
	if w.chance(10) {
		return false, errNATS // the message is stored, and the publisher does not hear of it
	}
	return false, nil
}

// wipe loses the store.
func (s *nats) wipe() {
	s.logf("store wiped with %d messages", len(s.stream))
	s.wipes++
	s.stream, s.seen = nil, map[string]time.Duration{}
	for _, r := range s.readers {
		r.next, r.again = 0, nil
	}
}

// kick makes a reader pull after a time, unless a pull is due already.
func (s *nats) kick(r *reader, d time.Duration) {
	if r.busy {
		return
	}
	r.busy = true
	s.world.after(d+s.world.travel(), func() { s.pull(r) })
}

func (s *nats) pull(r *reader) {
	r.busy = false
	if r.next >= len(s.stream) && len(r.again) == 0 {
		return
	}
	if !s.up || !r.node.up || !s.reaches(r.node) || s.frozen > s.world.now || r.node.frozen > s.world.now {
		s.kick(r, pullAgain)
		return
	}
	batch := append(r.again, s.stream[r.next:]...)
	r.again, r.next = nil, len(s.stream)
	if len(s.stream) > 0 && s.world.chance(30) { // an acknowledgement came too late
		batch = append(batch, s.stream[s.world.dice.IntN(len(s.stream))])
	}
	s.deliver(r, batch)
}

// deliver delivers a batch to its reader, and again what is not acknowledged.
func (s *nats) deliver(r *reader, batch []bus.Msg) {
	w, wipes := s.world, s.wipes
	life := r.node.life
	r.node.logf("gets %d messages", len(batch))
	err := r.handle(context.Background(), batch)
	again := func(d time.Duration) {
		w.after(d, func() {
			if s.wipes == wipes {
				r.again = append(r.again, batch...)
				s.kick(r, 0)
			}
		})
	}
	switch {
	case !r.node.up || r.node.life != life: // the reader died during it
		again(ackWait)
	case err != nil:
		r.node.logf("cannot take them: %v", err)
		again(w.between(time.Second, 4*time.Second))
	case w.chance(10):
		again(ackWait)
	}
}

// conn is a process's connection.
type conn struct {
	nats *nats
	from *node
	life int
	// said are core messages that are sent when the process has ended its step, in an
	// order that does not depend on a map.
	said []bus.Message
}

func (c *conn) alive() bool { return c.from.up && c.from.life == c.life }

// EnsureStream implements the services' Bus.
func (c *conn) EnsureStream(context.Context, bus.StreamConfig) error {
	if !c.alive() || !c.from.reaches(c.nats.node) {
		return errNATS
	}
	return nil
}

// PublishStreamAsync implements the services' Bus.
func (c *conn) PublishStreamAsync(
	_ context.Context, subject, id string, data []byte, _ bus.Header,
) (*bus.Future, error) {
	if !c.alive() {
		return nil, errNATS
	}
	return bus.Outcome(c.nats.publish(c.from, subject, id, data)), nil
}

// Publish implements the services' Bus.
func (c *conn) Publish(_ context.Context, subject string, data []byte, _ bus.Header) error {
	c.said = append(c.said, bus.Message{Subject: subject, Data: slices.Clone(data)})
	return nil
}

// Waiting implements the ledger's Bus.
func (c *conn) Waiting(_ context.Context, _, durable string) (time.Duration, error) {
	s := c.nats
	if !c.alive() || !s.up || !c.from.reaches(s.node) || s.frozen > s.world.now {
		return 0, errNATS
	}
	var oldest time.Duration
	for _, r := range s.readers {
		if r.name != durable {
			continue
		}
		for _, m := range append(slices.Clone(r.again), s.stream[r.next:]...) {
			oldest = max(oldest, s.world.time().Sub(m.Published))
		}
	}
	return oldest, nil
}

// Subscribe and Consume are done by the simulator.
func (c *conn) Subscribe(string, string, func(context.Context, bus.Message)) (*bus.Subscription, error) {
	return nil, errNATS
}

// Consume implements the services' Bus.
func (c *conn) Consume(context.Context, bus.ConsumerConfig, func(context.Context, []bus.Msg) error) error {
	return errNATS
}

// flush sends the core messages to the hubs. Each may be lost.
func (c *conn) flush() {
	said := c.said
	c.said = nil
	slices.SortStableFunc(said, func(a, b bus.Message) int { return strings.Compare(a.Subject, b.Subject) })
	for _, m := range said {
		hub := c.nats.net.hubOf(m.Subject)
		if hub == nil || !c.alive() || !c.from.reaches(c.nats.node) || c.nats.world.chance(30) {
			continue
		}
		c.nats.send(hub.node, func() { hub.notice(m) }, nil)
	}
}
