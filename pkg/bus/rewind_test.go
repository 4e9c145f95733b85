package bus_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
)

var rewound = bus.ConsumerConfig{Stream: usage, Durable: "d", Batch: 1}

func TestARewoundConsumerDeliversAgainWhatWasStoredSinceThen(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	publish(t, c, "a", "b", "c", "d", "e")
	k := consume(t, c, rewound)
	msgs := k.expect("a", "b", "c", "d", "e")
	// The consumer goes on meanwhile.
	n, err := c.Rewind(patientContext(t), usage.Name, "d", msgs[2].Published)
	if err != nil || n != 3 {
		t.Fatalf("got %d messages, %v, want 3", n, err)
	}
	// A consumer that comes back before the new one is made delivers the whole
	// stream first.
	k.expectLast("c", "d", "e")
	publish(t, c, "f")
	k.expectLast("f")
	k.stop()
	// Who comes by later neither begins anew nor is refused.
	publish(t, c, "g")
	consume(t, c, rewound).expect("g")
	if waits, err := c.Waiting(patientContext(t), usage.Name, "d"); err != nil || waits > patience {
		t.Errorf("got a message that waits for %v, %v, want next to none", waits, err)
	}
}

func TestARewindToTheFutureOrTwiceIsHarmless(t *testing.T) {
	c := bustest.New(t)
	ensure(t, c, usage)
	publish(t, c, "a")
	k := consume(t, c, rewound)
	at := k.expect("a")[0].Published
	for since, want := range map[time.Time]uint64{time.Now().Add(time.Minute): 0, at: 1} {
		for range 2 {
			if n, err := c.Rewind(patientContext(t), usage.Name, "d", since); err != nil || n != want {
				t.Errorf("got %d messages since %v, %v, want %d", n, since, err, want)
			}
		}
	}
}

func TestARewindBeyondWhatTheStreamHoldsIsRefusedAndChangesNothing(t *testing.T) {
	c := bustest.New(t)
	small := bus.StreamConfig{Name: "USAGE", Subjects: []string{"usage.>"}, MaxBytes: 2 << 10}
	ensure(t, c, small)
	begun := time.Now()
	publish(t, c, "0")
	if _, err := c.Rewind(patientContext(t), small.Name, "d", begun.Add(-time.Hour)); !errors.Is(err, bus.ErrTooOld) {
		t.Errorf("before the stream was made: got %v, want it refused", err)
	}
	if n, err := c.Rewind(patientContext(t), small.Name, "d", begun); err != nil || n != 1 {
		t.Errorf("before the first message, of which nothing is gone: got %d, %v, want 1", n, err)
	}
	for n := range 60 {
		publish(t, c, strconv.Itoa(n+1))
	}
	k := consume(t, c, bus.ConsumerConfig{Stream: small, Durable: "d", Batch: bus.MaxBatch})
	first := receive(t, k.batches, "what is left")[0]
	if first.Sequence == 1 {
		t.Fatal("the stream has dropped nothing")
	}
	_, err := c.Rewind(patientContext(t), small.Name, "d", first.Published.Add(-1))
	if !errors.Is(err, bus.ErrTooOld) || !strings.Contains(err.Error(), first.Published.UTC().Format(time.RFC3339Nano)) {
		t.Errorf("got %v, want it refused, and the oldest message named, of %v", err, first.Published.UTC())
	}
	publish(t, c, "next")
	for {
		msgs := receive(t, k.batches, "the next message alone")
		if msgs[0].Deliveries > 1 {
			t.Errorf("message %s is delivered again after a refusal: got %d, want at most 1", msgs[0].ID, msgs[0].Deliveries)
		}
		if msgs[len(msgs)-1].ID == "next" {
			break
		}
	}
}

func TestARewindOfNoStreamIsAnError(t *testing.T) {
	c := bustest.New(t)
	if _, err := c.Rewind(patientContext(t), "NONE", "d", time.Now()); err == nil || errors.Is(err, bus.ErrTooOld) {
		t.Errorf("got %v, want that there is no such stream", err)
	}
}

func TestARewindThatTheServerForbidsEndsBeforeItsCallersTime(t *testing.T) {
	s := embedded(t)
	at := func(service string) *bus.Conn { return s.conn(t, bus.Identity{Services: []string{service}}) }
	ensure(t, at("billing-ledger"), bus.UsageStream)
	ctx := patientContext(t)
	if _, err := at("settlement").Rewind(ctx, bus.UsageStream.Name, bus.DurableBilling, time.Now()); err == nil {
		t.Error("got another service's consumer rewound, want an error")
	}
	if err := ctx.Err(); err != nil {
		t.Errorf("the request waited for the caller's deadline: %v", err)
	}
}
