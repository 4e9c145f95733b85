package bus_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
)

var usage = bus.StreamConfig{Name: "USAGE", Subjects: []string{"usage.>"}, MaxBytes: 16 << 20}

// patient outlasts the repair of a lost connection.
func patientContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func ensure(t *testing.T, c *bus.Conn, cfg bus.StreamConfig) {
	t.Helper()
	if err := c.EnsureStream(patientContext(t), cfg); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, c *bus.Conn, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := c.PublishStream(patientContext(t), "usage.v1", id, []byte("data "+id), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepeatedMessageIDIsFlaggedAndStoredOnce(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	for i, want := range []bool{false, true} {
		dup, err := c.PublishStream(t.Context(), "usage.v1", "id", []byte("x"), nil)
		if err != nil {
			t.Errorf("publish %d: got the error %v, want none", i+1, err)
		} else if dup != want {
			t.Errorf("publish %d: duplicate: got %t, want %t", i+1, dup, want)
		}
	}
	f, err := c.PublishStreamAsync(t.Context(), "usage.v1", "id", []byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if dup, err := f.Wait(t.Context()); err != nil {
		t.Errorf("asynchronous publish: got the error %v, want none", err)
	} else if !dup {
		t.Error("asynchronous publish: duplicate: dup: got false, want true")
	}
	publish(t, c, "other")
	k := consume(t, c, bus.ConsumerConfig{Stream: usage, Durable: "d"})
	k.expect("id", "other")
}

func TestAsynchronousPublishResolvesEachMessage(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	const n = 3 * bus.MaxAsync // more than may be outstanding
	futures := make([]*bus.Future, n)
	for i := range futures {
		f, err := c.PublishStreamAsync(t.Context(), "usage.v1", strconv.Itoa(i), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		futures[i] = f
	}
	for i, f := range futures {
		if dup, err := f.Wait(patientContext(t)); err != nil {
			t.Fatalf("message %d: got the error %v, want none", i, err)
		} else if dup {
			t.Fatalf("message %d: dup: got true, want false", i)
		}
	}
}

func TestAsynchronousPublishBlocksAtItsBound(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	ensure(t, c, usage)
	// A subject that a plain subscriber hears but no stream answers for.
	if _, err := c.Subscribe("deaf", "", func(context.Context, bus.Message) {}); err != nil {
		t.Fatal(err)
	}
	var last *bus.Future
	for i := range bus.MaxAsync {
		f, err := c.PublishStreamAsync(t.Context(), "deaf", strconv.Itoa(i), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		last = f
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.PublishStreamAsync(ctx, "deaf", "more", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one more than the bound: got the error %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := last.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a future without an answer: got the error %v, want %v", err, context.DeadlineExceeded)
	}
	c.Close()
	receive(t, last.Done(), "the future of a closed connection")
	if _, err := last.Wait(t.Context()); err == nil {
		t.Error("a message without an answer succeeded")
	}
}

func TestFullStreamMakesRoomForTheNewest(t *testing.T) {
	c := bustest.New(t)
	small := bus.StreamConfig{Name: "SMALL", Subjects: []string{"small"}, MaxBytes: 4 << 10}
	ensure(t, c, small)
	data := make([]byte, 1<<10)
	for i := range 8 {
		if _, err := c.PublishStream(t.Context(), "small", strconv.Itoa(i), data, nil); err != nil {
			t.Errorf("message %d was refused: %v", i, err)
		}
	}
	var first string
	ctx, stop := context.WithCancel(t.Context())
	err := c.Consume(ctx, bus.ConsumerConfig{Stream: small, Durable: "d", Batch: 1},
		func(_ context.Context, msgs []bus.Msg) error {
			if first == "" {
				first = msgs[0].ID
			}
			if msgs[0].ID == "7" {
				stop()
			}
			return nil
		})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case first == "0":
		t.Error(`the stream begins with message: got "0", want any but "0"`)
	case first == "":
		t.Error(`the stream begins with message: got "", want some text`)
	}
}

func TestStreamIsEnsuredTwiceAndChanged(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	wider := usage
	wider.Subjects = []string{"usage.>", "extra"}
	ensure(t, c, wider)
	ensure(t, c, wider)
	if _, err := c.PublishStream(t.Context(), "extra", "1", nil, nil); err != nil {
		t.Errorf("publish on an added subject: %v", err)
	}
}

func TestPublishWithoutAStreamFails(t *testing.T) {
	c := bustest.New(t)
	if _, err := c.PublishStream(t.Context(), "nobody", "1", nil, nil); err == nil {
		t.Error("a message without a stream was accepted")
	}
}

func TestPublisherRestoresTheStreamOfAWipedStore(t *testing.T) {
	s := bustest.NewServer(t)
	c := bustest.Connect(t, s)
	ensure(t, c, usage)
	cfg := s.Config()
	s.Stop()
	cfg.StoreDir = t.TempDir()
	restart(t, cfg)
	awaitConnected(t, c)
	if _, err := c.PublishStream(patientContext(t), "usage.v1", "1", nil, nil); err != nil {
		t.Errorf("publish after the store was lost: %v", err)
	}
}

// awaitAcknowledged returns when the server has taken the acknowledgement of all
// that consumer d of usage was given, which it does some time after it was sent.
func awaitAcknowledged(t *testing.T, c *bus.Conn) {
	t.Helper()
	ctx := patientContext(t)
	for {
		waits, err := c.Waiting(ctx, usage.Name, "d")
		switch {
		case err != nil:
			t.Fatal(err)
		case waits == 0:
			return
		}
	}
}

// awaitConnected returns when a round trip succeeds again.
func awaitConnected(t *testing.T, c *bus.Conn) {
	t.Helper()
	ctx := patientContext(t)
	for c.Flush(ctx) != nil {
		if ctx.Err() != nil {
			t.Fatal("the connection did not come back")
		}
	}
}
