package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/clock"
)

const (
	// MaxBatch is the largest number of messages in one call of a handler.
	MaxBatch = 200

	ackWait = 30 * time.Second
	// handlerTimeout leaves time to acknowledge before the server delivers the messages
	// to another consumer.
	handlerTimeout = 25 * time.Second
	// pollWait is how long one request waits at the server for a message. An idle consumer asks
	// that seldom.
	pollWait = 10 * time.Second
	// pollHeartbeat is how often the server says that it still has the request. Two that stay
	// away end the request, so a consumer waits for at most two on a request that another
	// server lost. A request that is lost with this connection is made again at once.
	pollHeartbeat = 4 * time.Second
	maxAckPending = 1000

	defaultRetryMin = 500 * time.Millisecond
	defaultRetryMax = 30 * time.Second
)

// ConsumerConfig describes a durable consumer: a position in a stream that survives
// restarts and that all replicas of a service share.
type ConsumerConfig struct {
	// Stream is ensured first, and again after a server lost it.
	Stream StreamConfig
	// Durable is the consumer's name, the same in every replica.
	Durable string
	// Filter selects subjects of the stream; empty means all.
	Filter string
	// Batch bounds the messages of one handler call, 1 to MaxBatch; 0 means
	// MaxBatch.
	Batch int
	// Linger is the least time between a batch that is not full and the next, and how long the
	// first message after a pause waits for more, so that a steady trickle is not handled message
	// by message; 0 does not wait.
	Linger time.Duration
	// RetryMin and RetryMax bound the pause after a failed batch, which
	// doubles with each failure in a row; 0 means 500 ms and 30 s.
	RetryMin, RetryMax time.Duration
}

// Msg is a stream message in a handler.
type Msg struct {
	Subject string
	Header  Header
	Data    []byte
	// ID is the producer's msgID.
	ID string
	// Sequence in the stream. It restarts when a stream is created again.
	Sequence uint64
	// Deliveries counts this delivery too: above 1, the message was delivered before.
	Deliveries uint64
	// Published is when the server stored the message.
	Published time.Time
	// Pending is the number of messages that still waited for the consumer when this one
	// was delivered.
	Pending uint64

	native     jetstream.Msg
	terminated *atomic.Bool
	span       trace.Span // nil when the message's trace is not recorded
}

// Term removes a poison message from the consumer for good: it is not delivered again,
// whatever the handler returns. Keep it elsewhere first.
func (m Msg) Term(reason string) error {
	if err := m.native.TermWithReason(reason); err != nil {
		return fmt.Errorf("terminate message %d: %w", m.Sequence, err)
	}
	m.terminated.Store(true)
	return nil
}

// Consume hands the stream's messages to handler, batch by batch, until ctx ends. Then it
// finishes the batch under way and returns nil. Any other return is a mistake in cfg.
//
// When handler returns nil, all messages of the batch are acknowledged. When it returns
// an error, all messages except terminated ones are delivered again after a pause, any
// number of times. A message whose acknowledgement is lost is delivered again after 30 s,
// so handlers must be idempotent. Redelivered messages are out of order. A message of a
// recorded trace is a span below its publication, for as long as the handler has its
// batch (see Msg.Span). The handler's context is not cancelled with ctx; it ends after 25
// s.
//
// Consume waits out lost connections, restarted servers and wiped stores, and creates
// stream and consumer again.
func (c *Conn) Consume(ctx context.Context, cfg ConsumerConfig, handler func(context.Context, []Msg) error) error {
	if err := cfg.applyDefaults(); err != nil {
		return err
	}
	l := &consumeLoop{conn: c, cfg: cfg, handler: handler}
	l.run(ctx)
	// Acknowledgements are sent without waiting, so the last ones are flushed here.
	c.flushLast(ctx)
	return nil
}

// Waiting returns the age of the oldest message that was delivered to a consumer, or is
// still to be, and is not acknowledged, on any connection; 0 when there is none. Both
// times are the server's.
func (c *Conn) Waiting(ctx context.Context, stream, durable string) (time.Duration, error) {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, stream, durable)
	if err != nil {
		return 0, fmt.Errorf("look at consumer %s: %w", durable, err)
	}
	info := consumer.CachedInfo()
	if info.NumAckPending == 0 && info.NumPending == 0 {
		return 0, nil
	}
	from, err := c.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	subject := info.Config.FilterSubject
	if subject == "" {
		subject = ">"
	}
	oldest, err := from.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil // aged out meanwhile
	}
	if err != nil {
		return 0, fmt.Errorf("read the oldest message of %s: %w", stream, err)
	}
	return max(info.TimeStamp.Sub(oldest.Time), 0), nil
}

// Later gives the message back, to be delivered again after a pause, whatever the handler
// returns for its batch.
func (m Msg) Later(pause time.Duration) error {
	if err := m.native.NakWithDelay(pause); err != nil {
		return fmt.Errorf("put message %d off: %w", m.Sequence, err)
	}
	m.terminated.Store(true)
	return nil
}

func (cfg *ConsumerConfig) applyDefaults() error {
	if cfg.Stream.Name == "" || cfg.Durable == "" {
		return errors.New("consume: stream and durable need names")
	}
	if cfg.Batch == 0 {
		cfg.Batch = MaxBatch
	}
	if cfg.Batch < 1 || cfg.Batch > MaxBatch {
		return fmt.Errorf("consume: batch of %d, want 1 to %d", cfg.Batch, MaxBatch)
	}
	if cfg.RetryMin == 0 {
		cfg.RetryMin = defaultRetryMin
	}
	if cfg.RetryMax == 0 {
		cfg.RetryMax = defaultRetryMax
	}
	return nil
}

// flushLast is best effort: a lost acknowledgement costs a repeated delivery, which
// handlers must bear anyway.
func (c *Conn) flushLast(ctx context.Context) {
	if !c.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		c.log.Warn("last acknowledgements may be lost", "error", err)
	}
}

// consumeLoop is one call of Consume.
type consumeLoop struct {
	conn     *Conn
	cfg      ConsumerConfig
	handler  func(context.Context, []Msg) error
	consumer jetstream.Consumer
	failures int       // in a row
	due      time.Time // when messages are taken again at the earliest
}

func (l *consumeLoop) run(ctx context.Context) {
	for ctx.Err() == nil {
		msgs, err := l.next(ctx)
		if err == nil && len(msgs) > 0 {
			err = l.handle(ctx, msgs)
		}
		switch {
		case err == nil:
			l.failures = 0
		case ctx.Err() != nil:
			return
		default:
			l.failures++
			wait := l.backoff()
			l.conn.log.Warn("consumer pauses after a failure", "stream", l.cfg.Stream.Name,
				"durable", l.cfg.Durable, "failures", l.failures, "pause", wait, "error", err)
			_ = clock.Sleep(ctx, wait)
		}
	}
}

// next returns the messages that are there now, and waits for the first. An empty result
// without an error means that none arrived. After an error the consumer is looked up
// again and created if need be.
func (l *consumeLoop) next(ctx context.Context) ([]Msg, error) {
	if l.consumer == nil {
		if err := l.ensure(ctx); err != nil {
			return nil, err
		}
	}
	msgs, err := l.fetch(ctx)
	if err != nil {
		l.consumer = nil
		if len(msgs) > 0 {
			return msgs, nil // use these; the next round returns the error
		}
	}
	return msgs, err
}

func (l *consumeLoop) ensure(ctx context.Context) error {
	if err := l.conn.EnsureStream(ctx, l.cfg.Stream); err != nil {
		return err
	}
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	want := durableConfig(l.cfg.Durable, l.cfg.Filter)
	// The start of a consumer cannot be changed any more, and Rewind has chosen it.
	standing, err := l.conn.js.Consumer(ctx, l.cfg.Stream.Name, l.cfg.Durable)
	switch {
	case err == nil:
		began := standing.CachedInfo().Config
		want.DeliverPolicy, want.OptStartTime, want.OptStartSeq = began.DeliverPolicy, began.OptStartTime, began.OptStartSeq
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("look at consumer %s: %w", l.cfg.Durable, err)
	}
	consumer, err := l.conn.js.CreateOrUpdateConsumer(ctx, l.cfg.Stream.Name, want)
	if err != nil {
		return fmt.Errorf("ensure consumer %s: %w", l.cfg.Durable, err)
	}
	l.consumer = consumer
	return nil
}

// durableConfig returns a consumer that begins with the oldest message.
func durableConfig(durable, filter string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: durable, FilterSubject: filter,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxDeliver: -1, MaxAckPending: maxAckPending,
	}
}

// fetch takes the messages that are there, Linger after it last took some at the earliest, so that a steady
// flow costs one request a batch. Only if there are none, it waits for one message, and for Linger, and takes
// the messages that have arrived meanwhile. (It does not ask for the whole batch at once, because that
// request would wait for the batch to fill.) A batch that is full says that more wait: they are taken at once.
func (l *consumeLoop) fetch(ctx context.Context) ([]Msg, error) {
	if clock.Sleep(ctx, time.Until(l.due)) != nil {
		return nil, nil
	}
	msgs, err := l.take(ctx, l.cfg.Batch)
	if err == nil && len(msgs) == 0 {
		if msgs, err = l.first(ctx); err == nil && len(msgs) > 0 && l.cfg.Batch > 1 {
			if clock.Sleep(ctx, l.cfg.Linger) != nil {
				return msgs, nil
			}
			var more []Msg
			more, err = l.take(ctx, l.cfg.Batch-len(msgs))
			msgs = append(msgs, more...)
		}
	}
	l.due = time.Now()
	if len(msgs) < l.cfg.Batch {
		l.due = l.due.Add(l.cfg.Linger)
	}
	return msgs, err
}

// first waits for one message; there may be none.
//
// The fetch is not ended by ctx: the library would stop reading before the
// server knows, and a message sent in between would wait out the ack wait.
func (l *consumeLoop) first(ctx context.Context) ([]Msg, error) {
	back := l.conn.Reconnected()
	batch, err := l.consumer.Fetch(1, jetstream.FetchMaxWait(pollWait), jetstream.FetchHeartbeat(pollHeartbeat))
	if err != nil {
		return nil, fmt.Errorf("wait for messages: %w", err)
	}
	select {
	case native, ok := <-batch.Messages():
		if !ok {
			return collect(ctx, batch)
		}
		m, err := received(native)
		if err != nil {
			return nil, err
		}
		return []Msg{m}, nil
	case <-back: // the server has forgotten the request
	case <-ctx.Done():
	}
	go giveBack(batch)
	return nil, nil
}

// giveBack reads an abandoned fetch to its end, within pollWait and a second, so that the
// messages that it still brings go to another consumer at once.
func giveBack(batch jetstream.MessageBatch) {
	for native := range batch.Messages() {
		_ = native.Nak() // it comes again without it, only later
	}
}

func (l *consumeLoop) take(ctx context.Context, n int) ([]Msg, error) {
	batch, err := l.consumer.FetchNoWait(n)
	if err != nil {
		return nil, fmt.Errorf("fetch messages: %w", err)
	}
	return collect(ctx, batch)
}

// collect reads a fetch to its end. When ctx ends meanwhile, the messages go
// back at once instead of after the ack wait.
func collect(ctx context.Context, batch jetstream.MessageBatch) ([]Msg, error) {
	var msgs []Msg
	for native := range batch.Messages() {
		if ctx.Err() != nil {
			_ = native.Nak() // it comes again without it, only later
			continue
		}
		m, err := received(native)
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, m)
	}
	if err := batch.Error(); err != nil {
		return msgs, fmt.Errorf("fetch messages: %w", err)
	}
	return msgs, nil
}

func received(native jetstream.Msg) (Msg, error) {
	meta, err := native.Metadata()
	if err != nil {
		return Msg{}, fmt.Errorf("read message metadata: %w", err)
	}
	h := Header(native.Headers())
	return Msg{
		Subject: native.Subject(), Header: h, Data: native.Data(), ID: h.Get(jetstream.MsgIDHeader),
		Sequence: meta.Sequence.Stream, Deliveries: meta.NumDelivered, Published: meta.Timestamp, Pending: meta.NumPending,
		native: native, terminated: new(atomic.Bool),
	}, nil
}

// handle runs the handler and settles every message of the batch. A failure to settle a
// message only costs a repeated delivery.
func (l *consumeLoop) handle(ctx context.Context, msgs []Msg) error {
	hctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handlerTimeout)
	defer cancel()
	for i := range msgs {
		msgs[i].span = l.processing(&msgs[i])
	}
	err := l.handler(hctx, msgs)
	for _, m := range msgs {
		endSpan(m.span, err)
		switch {
		case m.terminated.Load():
		case err == nil:
			_ = m.native.Ack()
		default:
			_ = m.native.NakWithDelay(l.redelivery(m.Deliveries))
		}
	}
	if err != nil {
		return fmt.Errorf("handle %d messages: %w", len(msgs), err)
	}
	return nil
}

// redelivery returns the pause before a failed message is delivered again.
func (l *consumeLoop) redelivery(deliveries uint64) time.Duration {
	return jitter(l.cfg.RetryMin, l.cfg.RetryMax, int(min(deliveries, 32)))
}

// backoff returns the pause of the whole loop, so that a database that is down is not
// asked once for each waiting message.
func (l *consumeLoop) backoff() time.Duration {
	return jitter(l.cfg.RetryMin, l.cfg.RetryMax, min(l.failures, 32))
}

// jitter returns a random duration in [d/2, d], where d is low·2^(try-1) but at most
// high.
func jitter(low, high time.Duration, try int) time.Duration {
	d := high
	if shift := try - 1; shift < 31 && low<<shift > 0 && low<<shift < high {
		d = low << shift
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}
