package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
)

// patience bounds every wait for something that must happen.
const patience = 90 * time.Second

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	return receiveWithin(t, ch, patience, what)
}

func receiveWithin[T any](t *testing.T, ch <-chan T, limit time.Duration, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limit):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func TestEverySubscriberGetsAMessageAndEveryQueueOne(t *testing.T) {
	s := bustest.NewServer(t)
	pub, sub := bustest.Connect(t, s), bustest.Connect(t, s)
	got := make(chan string, 16)
	for _, q := range []string{"", "", "q", "q"} {
		if _, err := sub.Subscribe("a.*", q, func(_ context.Context, m bus.Message) {
			got <- q + ":" + m.Subject + ":" + string(m.Data) + ":" + m.Header.Get("K")
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Publish(t.Context(), "a.b", []byte("x"), bus.Header{"K": {"v"}}); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for range 3 {
		counts[receive(t, got, "a message")]++
	}
	if counts[":a.b:x:v"] != 2 {
		t.Errorf(`deliveries: counts[":a.b:x:v"]: got %d, want 2`, counts[":a.b:x:v"])
	} else if counts["q:a.b:x:v"] != 1 {
		t.Errorf(`deliveries: counts["q:a.b:x:v"]: got %d, want 1`, counts["q:a.b:x:v"])
	}
}

func TestTraceTravelsWithTheMessage(t *testing.T) {
	c := bustest.New(t)
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	got := make(chan trace.SpanContext, 1)
	if _, err := c.Subscribe("a", "", func(ctx context.Context, _ bus.Message) {
		got <- trace.SpanContextFromContext(ctx)
	}); err != nil {
		t.Fatal(err)
	}
	header := bus.Header{}
	if err := c.Publish(trace.ContextWithSpanContext(t.Context(), parent), "a", nil, header); err != nil {
		t.Fatal(err)
	}
	sc := receive(t, got, "the message")
	switch {
	case sc.TraceID() != parent.TraceID():
		t.Errorf("span context: sc.TraceID(): got %v, want %v", sc.TraceID(), parent.TraceID())
	case sc.SpanID() != parent.SpanID():
		t.Errorf("span context: sc.SpanID(): got %v, want %v", sc.SpanID(), parent.SpanID())
	case !sc.IsRemote():
		t.Errorf("span context: sc.IsRemote(): got false, want true, with %v", sc)
	case !sc.IsSampled():
		t.Errorf("span context: sc.IsSampled(): got false, want true, with %v", sc)
	}
	if len(header) != 0 {
		t.Errorf("the caller's header afterwards: got %d, want 0, in %v", len(header), header)
	}
}

func TestSlowSubscriberDropsAndCounts(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	busy, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	sub, err := c.SubscribeLimited("a", 4, func(context.Context, bus.Message) {
		select {
		case busy <- struct{}{}:
		default:
		}
		<-release
	})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(n int) {
		for range n {
			if err := c.Publish(t.Context(), "a", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(1)
	receive(t, busy, "the handler")
	publish(10)
	// The answer to the flush comes after the messages on the same connection.
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// One is with the handler and may or may not count as waiting.
	if got := sub.Dropped(); got < 6 || got > 7 {
		t.Errorf("dropped: got %d, want 6 to 7", got)
	}
}

func TestStoppedSubscriptionHearsNoMore(t *testing.T) {
	c := bustest.New(t)
	got := make(chan string, 4)
	hear := func(name string) *bus.Subscription {
		sub, err := c.Subscribe("a", "", func(context.Context, bus.Message) { got <- name })
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	if err := hear("stopped").Stop(); err != nil {
		t.Fatal(err)
	}
	hear("live")
	if err := c.Publish(t.Context(), "a", nil, nil); err != nil {
		t.Fatal(err)
	}
	if name := receive(t, got, "the message"); name != "live" {
		t.Errorf(`subscription got the message: got %q, want "live"`, name)
	}
}

func TestDrainDeliversWhatHasArrived(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	const n = 50
	got := make(chan struct{}, n)
	if _, err := c.Subscribe("a", "", func(context.Context, bus.Message) { got <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := c.Publish(t.Context(), "a", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got) != n {
		t.Errorf("%d of %d messages were handled before the connection closed: got %d, want %d", len(got), n, len(got), n)
	}
	if err := c.Publish(t.Context(), "a", nil, nil); err == nil {
		t.Error("a closed connection took a message")
	}
	if err := c.Drain(t.Context()); err != nil {
		t.Errorf("second Drain: %v", err)
	}
}

func TestConnectGivesUpWithItsContextAndKeepsTheURLSecret(t *testing.T) {
	for _, url := range []string{"nats://u:hunter2@127.0.0.1:1", "nats://u:hunter2@127.0.0.1:port",
		"nats://u:hunter2@[::"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := bus.Connect(ctx, bus.Config{URL: url})
		cancel()
		if err == nil {
			t.Errorf("Connect(%s): got no error, want one", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf(`Connect(%s): got the error %q, want it without "hunter2"`, url, err)
		}
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	s := bustest.NewServer(t)
	cfg := s.Config()
	s.Stop()
	type result struct {
		conn *bus.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := bus.Connect(ctx, bus.Config{URL: s.URL()})
		done <- result{c, err}
	}()
	restart(t, cfg)
	r := receive(t, done, "the connection")
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.conn.Close()
	if !r.conn.Connected() {
		t.Error("not connected")
	}
}

func TestServerNeedsAStore(t *testing.T) {
	if s, err := natsserver.Start(natsserver.Config{}); err == nil {
		s.Stop()
		t.Error("started without a store folder")
	}
}

func restart(t *testing.T, cfg natsserver.Config) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
