package bus_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
)

// consumption is a Consume loop of a test, with the verdict on each batch.
type consumption struct {
	t       *testing.T
	limit   time.Duration // of expect
	batches chan []bus.Msg
	verdict func([]bus.Msg) error
	cancel  context.CancelFunc
	done    chan error
}

func consume(t *testing.T, c *bus.Conn, cfg bus.ConsumerConfig) *consumption {
	t.Helper()
	return consumeWith(t, c, cfg, func([]bus.Msg) error { return nil })
}

func consumeWith(t *testing.T, c *bus.Conn, cfg bus.ConsumerConfig, verdict func([]bus.Msg) error) *consumption {
	t.Helper()
	if cfg.RetryMin == 0 {
		cfg.RetryMin, cfg.RetryMax = 10*time.Millisecond, 50*time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	k := &consumption{t: t, limit: patience, batches: make(chan []bus.Msg, 1024), verdict: verdict, cancel: cancel,
		done: make(chan error, 1)}
	go func() {
		k.done <- c.Consume(ctx, cfg, func(_ context.Context, msgs []bus.Msg) error {
			err := k.verdict(msgs)
			k.batches <- msgs
			return err
		})
	}()
	t.Cleanup(k.stop)
	return k
}

// stop ends the loop; it may be called twice.
func (k *consumption) stop() {
	k.t.Helper()
	k.cancel()
	err := receive(k.t, k.done, "the end of the loop")
	k.done <- err
	if err != nil {
		k.t.Errorf("Consume: %v", err)
	}
}

// expect waits for messages with these ids, in order, over any batches.
func (k *consumption) expect(ids ...string) []bus.Msg {
	k.t.Helper()
	var msgs []bus.Msg
	for len(msgs) < len(ids) {
		msgs = append(msgs, receiveWithin(k.t, k.batches, k.limit, "messages")...)
	}
	for i, want := range ids {
		if msgs[i].ID != want {
			k.t.Fatalf("message %d has id: got %s, want %s", i, msgs[i].ID, want)
		}
	}
	return msgs
}

// expectLast waits until the last messages that came have these ids, in order.
func (k *consumption) expectLast(ids ...string) {
	k.t.Helper()
	for last := []string{}; !slices.Equal(last, ids); {
		for _, m := range receiveWithin(k.t, k.batches, k.limit, "messages") {
			last = append(last, m.ID)
		}
		last = last[max(0, len(last)-len(ids)):]
	}
}

func TestConsumerGetsWholeBatches(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	const n = 25
	var ids []string
	for i := range n {
		ids = append(ids, strconv.Itoa(i))
	}
	publish(t, c, ids...)
	k := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d", Batch: 10})
	var sizes []int
	for total := 0; total < n; {
		b := receive(t, k.batches, "a batch")
		sizes, total = append(sizes, len(b)), total+len(b)
	}
	if !slices.Equal(sizes, []int{10, 10, 5}) {
		t.Errorf("batches: got %v, want 10, 10, 5", sizes)
	}
}

func TestConsumerSeesWhatWasPublished(t *testing.T) {
	c := bustest.New(t)
	k := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d", Filter: "usage.v2"})
	awaitStream(t, c)
	for _, subject := range []string{"usage.v1", "usage.v2"} {
		if _, err := c.PublishStream(t.Context(), subject, "id-"+subject, []byte("x"), bus.Header{"K": {"v"}}); err != nil {
			t.Fatal(err)
		}
	}
	m := k.expect("id-usage.v2")[0]
	if m.Subject != "usage.v2" {
		t.Errorf(`message: m.Subject: got %q, want "usage.v2"`, m.Subject)
	} else if string(m.Data) != "x" {
		t.Errorf(`message: m.Data: got %q, want "x"`, string(m.Data))
	} else if got := m.Header.Get("K"); got != "v" {
		t.Errorf(`message: m.Header.Get("K"): got %q, want "v"`, got)
	} else if m.Deliveries != 1 {
		t.Errorf("message: m.Deliveries: got %d, want 1", m.Deliveries)
	} else if m.Sequence != 2 {
		t.Errorf("message: m.Sequence: got %d, want 2", m.Sequence)
	} else if m.Published.IsZero() {
		t.Error("message: m.Published.IsZero(): got true, want false")
	}
}

// awaitStream waits until the stream that a Consume loop ensures is there.
func awaitStream(t *testing.T, c *bus.Conn) {
	t.Helper()
	ensure(t, c, usage)
}

func TestFailedBatchComesAgainAndAcknowledgedDoesNot(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	publish(t, c, "a", "b")
	const failures = 2
	k := consumeWith(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"}, func(msgs []bus.Msg) error {
		for _, m := range msgs {
			if m.Deliveries <= failures {
				return errors.New("database is down")
			}
		}
		return nil
	})
	seen := map[string]uint64{}
	for seen["a"] <= failures || seen["b"] <= failures {
		for _, m := range receive(t, k.batches, "another delivery") {
			seen[m.ID] = max(seen[m.ID], m.Deliveries)
		}
	}
	k.stop()
	publish(t, c, "c")
	consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"}).expect("c")
}

func TestTerminatedMessageNeverComesAgain(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	publish(t, c, "poison", "good")
	first := true
	k := consumeWith(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"}, func(msgs []bus.Msg) error {
		if !first {
			return nil
		}
		first = false
		for _, m := range msgs {
			if m.ID == "poison" {
				if err := m.Term("cannot be read"); err != nil {
					return err
				}
			}
		}
		return errors.New("try the others again")
	})
	k.expect("poison", "good")
	if again := k.expect("good"); again[0].Deliveries != 2 {
		t.Errorf("good came with deliveries: got %d, want 2", again[0].Deliveries)
	}
	publish(t, c, "next")
	k.expect("next")
}

func TestConsumeFinishesTheBatchUnderWay(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	publish(t, c, "a")
	entered, leave := make(chan context.Context, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- c.Consume(ctx, bus.ConsumerConfig{Stream: usage, Durable: "d"}, func(ctx context.Context, _ []bus.Msg) error {
			entered <- ctx
			<-leave
			return nil
		})
	}()
	hctx := receive(t, entered, "the handler")
	cancel()
	if hctx.Err() != nil {
		t.Error("the handler's context ended with the loop's")
	}
	if _, bounded := hctx.Deadline(); !bounded {
		t.Error("the handler's context has no deadline")
	}
	select {
	case err := <-done:
		t.Errorf("Consume returned before its handler: %v", err)
	default:
	}
	close(leave)
	if err := receive(t, done, "the end of the loop"); err != nil {
		t.Fatal(err)
	}
	publish(t, c, "b") // "a" was acknowledged: "b" is next
	consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"}).expect("b")
}

// A request that an idle loop left at the server must not swallow a message
// until the ack wait of 30 s is over.
func TestMessageAfterTheEndOfAnIdleLoopGoesToTheNext(t *testing.T) {
	c := bustest.New(t)
	for i := range 5 {
		k := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"})
		awaitStream(t, c)
		first, second := strconv.Itoa(2*i), strconv.Itoa(2*i+1)
		publish(t, c, first)
		k.expect(first)
		k.stop()
		publish(t, c, second)
		next := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"})
		next.limit = 25 * time.Second
		next.expect(second)
		next.stop()
	}
}

func TestConsumerSurvivesARestartWithItsStore(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	ensure(t, c, usage)
	publish(t, c, "before")
	k := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"})
	k.expect("before")
	awaitAcknowledged(t, c)
	cfg := s.Config()
	s.Stop()
	restart(t, cfg)
	awaitConnected(t, c)
	publish(t, c, "after")
	k.expect("after")
}

func TestConsumerSurvivesAWipedStore(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	ensure(t, c, usage)
	publish(t, c, "before")
	k := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"})
	k.expect("before")
	cfg := s.Config()
	s.Stop()
	cfg.StoreDir = t.TempDir()
	restart(t, cfg)
	awaitConnected(t, c)
	publish(t, c, "after")
	if m := k.expect("after")[0]; m.Sequence != 1 {
		t.Errorf("sequence: got %d, want 1", m.Sequence)
	}
}

func TestConsumeRefusesABatchBeyondItsBound(t *testing.T) {
	c := bustest.New(t)
	for _, cfg := range []bus.ConsumerConfig{
		{Stream: usage, Durable: "d", Batch: bus.MaxBatch + 1},
		{Stream: usage, Durable: "d", Batch: -1},
		{Stream: usage},
		{Durable: "d"},
	} {
		if err := c.Consume(t.Context(), cfg, nil); err == nil {
			t.Errorf("Consume took %+v", cfg)
		}
	}
}

// What one connection was given and does not acknowledge is seen by another.
func TestWaitingIsTheAgeOfTheOldestThatNobodyAcknowledged(t *testing.T) {
	server := bustest.NewServer(t)
	c, other := bustest.Connect(t, server), bustest.Connect(t, server)
	ensure(t, c, usage)
	if _, err := other.Waiting(t.Context(), usage.Name, "d"); err == nil {
		t.Error("a consumer that is not there has a word on it")
	}
	publish(t, c, "a", "b")
	taken, leave := make(chan struct{}), make(chan struct{})
	k := consumeWith(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d", Batch: 1}, func(msgs []bus.Msg) error {
		if msgs[0].ID == "b" {
			close(taken)
			<-leave
		}
		return nil
	})
	receive(t, taken, "the second batch in hand")
	waits, err := other.Waiting(t.Context(), usage.Name, "d")
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if waits <= 0 {
		t.Errorf("one message is in hand, and it waits: got %v, want more than 0", waits)
	}
	close(leave)
	k.expect("a", "b")
	k.stop()
	awaitAcknowledged(t, other)
}

// A request costs a subscription of its own and several messages, whether or not it brings any.
func TestASteadyFlowCostsOneRequestABatch(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	ensure(t, c, usage)
	var requests atomic.Int64
	sub, err := c.Subscribe("$JS.API.CONSUMER.MSG.NEXT."+usage.Name+".steady", "",
		func(context.Context, bus.Message) { requests.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Stop() }()
	const batches = 8
	n := 0
	next := func() error {
		n++
		_, err := c.PublishStream(t.Context(), "usage.v1", strconv.Itoa(n), nil, nil)
		return err
	}
	if err := next(); err != nil {
		t.Fatal(err)
	}
	k := consumeWith(t, c, bus.ConsumerConfig{Stream: usage, Durable: "steady", Linger: 20 * time.Millisecond},
		func([]bus.Msg) error {
			if n == batches {
				return nil
			}
			return next()
		})
	for range batches {
		receiveWithin(t, k.batches, k.limit, "a batch")
	}
	// The loop may ask for the ninth batch already, with one request, and wait for it with another.
	if got := requests.Load(); got > batches+2 {
		t.Errorf("requests for %d batches: got %d, want at most %d", batches, got, batches+2)
	}
}
