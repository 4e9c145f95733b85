package events

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
	"svc.internal/services/provider-hub/internal/session"
)

var discard = slog.New(slog.DiscardHandler)

// life is a process of a hub on a disk.
func life(t *testing.T, disk *simdisk.Disk, conn Bus, c clock.Clock) *Usage {
	t.Helper()
	return lifeWith(t, disk, conn, UsageDeps{Clock: c, Log: discard})
}

// lifeWith is a process of a hub that works with deps.
func lifeWith(t *testing.T, disk *simdisk.Disk, conn Bus, deps UsageDeps) *Usage {
	t.Helper()
	u := NewUsage("hub-a", conn, 0, deps)
	if err := u.Open(journal.Config{Disk: disk, Clock: deps.Clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// vanish journals an attempt whose caller vanished.
func vanish(t *testing.T, u *Usage, n byte) *dispatch.Order {
	t.Helper()
	o := &dispatch.Order{Request: ids.RequestID{1, 15: n}, Attempt: 2, Provider: ids.ProviderID{7}, Model: "m"}
	if err := errors.Join(u.Dispatched(o, u.clock.Now()), u.Vanished(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
	return o
}

// nowhere is a connection on which nothing goes out.
func nowhere(t *testing.T) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: bustest.NewServer(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	return conn
}

// told reads what a stream of receipts holds of void attempts, up to a last one
// that it publishes.
func told(t *testing.T, conn *bus.Conn) []*eventsv1.VoidEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := conn.EnsureStream(ctx, bus.WorkReceiptStream); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PublishStream(ctx, bus.SubjectVoid("last"), time.Now().String(), nil, nil); err != nil {
		t.Fatal(err)
	}
	var all []*eventsv1.VoidEvent
	complete := false
	err := conn.Consume(ctx, bus.ConsumerConfig{Stream: bus.WorkReceiptStream, Durable: "reader"},
		func(_ context.Context, list []bus.Msg) error {
			for _, m := range list {
				if m.Subject == bus.SubjectVoid("last") {
					complete = true
					cancel()
					continue
				}
				e := &eventsv1.VoidEvent{}
				if err := proto.Unmarshal(m.Data, e); err != nil {
					t.Errorf("got the error %v, want none", err)
				} else if want := bus.SubjectVoid("hub-a"); m.Subject != want {
					t.Errorf("m.Subject: got %q, want %q", m.Subject, want)
				}
				all = append(all, e)
			}
			return nil
		})
	if err != nil {
		t.Fatalf("reading the stream to its end: got the error %v, want none", err)
	}
	if !complete {
		t.Fatal("reading the stream to its end: complete: got false, want true")
	}
	return all
}

func TestAVoidOutlivesNATSBeingAwayAndTheHubBeingKilled(t *testing.T) {
	disk, c := simdisk.New(), clock.NewManual(time.UnixMilli(1_790_000_000_000))
	first := life(t, disk, nowhere(t), c)
	o := vanish(t, first, 1)
	first.PublishWaiting(t.Context())
	c.Advance(DefaultResettle + time.Second)
	first.Sweep(t.Context())
	if first.Voids() != 1 {
		t.Errorf("voids that wait while NATS is away: got %d, want 1", first.Voids())
	}
	near := bustest.New(t)
	second := life(t, disk.Kill(), near, c)
	switch {
	case second.Voids() != 1:
		t.Errorf("the next process: got %d, want 1", second.Voids())
	case second.Unsettled() != 0:
		t.Errorf("second.Unsettled(): got %d, want 0", second.Unsettled())
	case second.State(keyOf(o)) != Closed:
		t.Errorf("second.State(keyOf(o)): got %d, want %d", second.State(keyOf(o)), Closed)
	}
	second.SweepEarlier(t.Context())
	c.Advance(time.Hour)
	second.Sweep(t.Context())
	switch {
	case second.Voids() != 0:
		t.Errorf("%d still wait, %d in the journal, %d lost: second.Voids(): got %d, want 0", second.Voids(),
			second.Journal().Usage().Unsettled, second.VoidsLost(), second.Voids())
	case second.Journal().Usage().Unsettled != 0:
		t.Errorf("%d still wait, %d in the journal, %d lost: second.Journal().Usage().Unsettled: got %d, want 0",
			second.Voids(), second.Journal().Usage().Unsettled, second.VoidsLost(), second.Journal().Usage().Unsettled)
	case second.VoidsLost() != 0:
		t.Errorf("%d still wait, %d in the journal, %d lost: second.VoidsLost(): got %d, want 0", second.Voids(),
			second.Journal().Usage().Unsettled, second.VoidsLost(), second.VoidsLost())
	}
	all := told(t, near)
	switch {
	case len(all) != 1:
		t.Errorf("told: len(all): got %d, want 1, in %v", len(all), all)
	case all[0].GetRequestId() != o.Request.String():
		t.Errorf("told: all[0].GetRequestId(): got %q, want %q", all[0].GetRequestId(), o.Request.String())
	case all[0].GetAttempt() != 2:
		t.Errorf("told: all[0].GetAttempt(): got %d, want 2", all[0].GetAttempt())
	case all[0].GetHubId() != "hub-a":
		t.Errorf(`told: all[0].GetHubId(): got %q, want "hub-a"`, all[0].GetHubId())
	case all[0].GetProviderId() != o.Provider.String():
		t.Errorf("told: all[0].GetProviderId(): got %q, want %q", all[0].GetProviderId(), o.Provider.String())
	}
}

func TestAVoidIsPublishedAtOnceAndStruck(t *testing.T) {
	disk, c, conn := simdisk.New(), clock.NewManual(time.UnixMilli(1_790_000_000_000)), bustest.New(t)
	heard := make(chan []journal.Key, 4)
	u := lifeWith(t, disk, conn, UsageDeps{Clock: c, Log: discard, Closed: func(keys []journal.Key) { heard <- keys }})
	o := vanish(t, u, 1)
	if keys := <-heard; len(keys) != 1 {
		t.Errorf("closed: len(keys): got %d, want 1, in %v", len(keys), keys)
	} else if want := keyOf(o); keys[0] != want {
		t.Errorf("closed: keys[0]: got %v, want %v", keys[0], want)
	}
	u.PublishWaiting(t.Context())
	if u.Voids() != 0 {
		t.Error("it waits, although NATS took it")
	}
	if err := u.Journal().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := life(t, disk.Kill(), conn, c)
	if got := third.Voids(); got != 0 {
		t.Errorf("in the journal, once NATS took it: third.Voids(): got %d, want 0", got)
	} else if got := third.Journal().Usage().Unsettled; got != 0 {
		t.Errorf("in the journal, once NATS took it: third.Journal().Usage().Unsettled: got %d, want 0", got)
	}
	if all := told(t, conn); len(all) != 1 {
		t.Errorf("told: got %d, want 1, in %v", len(all), all)
	}
}

// A hub that died does not know what its gateway relayed.
func TestAnAttemptThatAHubLeftBehindIsNotCalledVoid(t *testing.T) {
	disk, c, conn := simdisk.New(), clock.NewManual(time.UnixMilli(1_790_000_000_000)), bustest.New(t)
	u := life(t, disk, conn, c)
	o := &dispatch.Order{Request: ids.RequestID{1}, Attempt: 1, Provider: ids.ProviderID{7}}
	if err := u.Dispatched(o, c.Now()); err != nil {
		t.Fatal(err)
	}
	if err := u.Journal().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := life(t, disk.Kill(), conn, c)
	next.SweepEarlier(t.Context())
	next.PublishWaiting(t.Context())
	if all := told(t, conn); len(all) != 0 {
		t.Errorf("told: got %d, want 0, in %v", len(all), all)
	}
	if next.State(keyOf(o)) != Unknown {
		t.Error("a receipt for it is not asked about")
	}
}

// A stream of receipts that does not answer is waited for 10 s each time; usage
// is published meanwhile, and swept.
func TestAStreamOfReceiptsThatHangsDoesNotHoldUpUsage(t *testing.T) {
	f := setup(t)
	hung := hanging{Conn: f.bus, met: make(chan struct{}, 64), over: make(chan struct{})}
	f.usage.bus = hung
	lost := vanish(t, f.usage, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.usage.Publish(ctx) }()
	<-hung.met // voids are at it
	for range 3 {
		o := f.serve(t)
		select {
		case m := <-f.got:
			if m.ID != o.Request.String() {
				t.Errorf("published: got %q, want %q", m.ID, o.Request.String())
			}
		case <-time.After(time.Minute): // what hangs ends behind this
			t.Fatal("usage waits for the stream of receipts")
		}
	}
	if got := f.usage.Voids(); got != 1 {
		t.Errorf("the void that waits: f.usage.Voids(): got %d, want 1", got)
	} else if got := f.usage.State(keyOf(lost)); got != Closed {
		t.Errorf("the void that waits: f.usage.State(keyOf(lost)): got %d, want %d", got, Closed)
	}
	cancel()
	close(hung.over)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// hanging is a connection whose stream of receipts does not answer until it is
// over, whatever patience its caller has.
type hanging struct {
	*bus.Conn
	met, over chan struct{}
}

func (h hanging) EnsureStream(ctx context.Context, cfg bus.StreamConfig) error {
	if cfg.Name != bus.WorkReceiptStream.Name {
		return h.Conn.EnsureStream(ctx, cfg)
	}
	h.met <- struct{}{}
	<-h.over
	return errors.New("it is away")
}

func TestVoidsAreBoundedInNumberAndTime(t *testing.T) {
	disk, c := simdisk.New(), clock.NewManual(time.UnixMilli(1_790_000_000_000))
	u := life(t, disk, nowhere(t), c)
	old := vanish(t, u, 1)
	for n := range uint32(maxVoids - 1) {
		u.voids[journal.Key{Request: [16]byte{9}, Attempt: n}] = struct{}{}
	}
	vanish(t, u, 2)
	switch {
	case u.Voids() != maxVoids:
		t.Errorf("%d wait, %d lost, %d in the journal: u.Voids(): got %d, want %d", u.Voids(), u.VoidsLost(),
			u.Journal().Usage().Unsettled, u.Voids(), maxVoids)
	case u.VoidsLost() != 1:
		t.Errorf("%d wait, %d lost, %d in the journal: u.VoidsLost(): got %d, want 1", u.Voids(), u.VoidsLost(),
			u.Journal().Usage().Unsettled, u.VoidsLost())
	case u.Journal().Usage().Unsettled != 1:
		t.Errorf("%d wait, %d lost, %d in the journal: u.Journal().Usage().Unsettled: got %d, want 1", u.Voids(),
			u.VoidsLost(), u.Journal().Usage().Unsettled, u.Journal().Usage().Unsettled)
	case u.Journal().Usage().Open != 0:
		t.Errorf("%d wait, %d lost, %d in the journal: u.Journal().Usage().Open: got %d, want 0", u.Voids(), u.VoidsLost(),
			u.Journal().Usage().Unsettled, u.Journal().Usage().Open)
	}
	c.Advance(maxVoid)
	u.Sweep(t.Context())
	if u.Journal().Usage().Unsettled != 1 {
		t.Error("given up too early")
	}
	c.Advance(time.Second)
	u.Sweep(t.Context())
	switch _, waits := u.voids[keyOf(old)]; {
	case waits:
		t.Error("u.voids[keyOf(old)]: got one, want none")
	case u.VoidsLost() != 2:
		t.Errorf("waits: u.VoidsLost(): got %d, want 2", u.VoidsLost())
	case u.Journal().Usage().Unsettled != 0:
		t.Errorf("waits: u.Journal().Usage().Unsettled: got %d, want 0", u.Journal().Usage().Unsettled)
	}
}

func TestAVoidBeyondTheQueueIsLeftToTheSweep(t *testing.T) {
	c, conn := clock.NewManual(time.UnixMilli(1_790_000_000_000)), bustest.New(t)
	u := life(t, simdisk.New(), conn, c)
	for range usageQueue {
		u.voidQueue <- waiting{}
	}
	o := vanish(t, u, 1) // must not block
	c.Advance(DefaultResettle + time.Second)
	u.Sweep(t.Context())
	if all := told(t, conn); len(all) != 1 {
		t.Errorf("told: len(all): got %d, want 1, in %v", len(all), all)
	} else if all[0].GetRequestId() != o.Request.String() {
		t.Errorf("told: all[0].GetRequestId(): got %q, want %q", all[0].GetRequestId(), o.Request.String())
	}
}

// A key that came by the queue and by a sweep is struck once: by the second time
// the gateway may have dispatched it anew.
func TestAVoidThatIsPublishedTwiceStrikesNoOtherAttempt(t *testing.T) {
	c, conn := clock.NewManual(time.UnixMilli(1_790_000_000_000)), bustest.New(t)
	u := life(t, simdisk.New(), conn, c)
	o := vanish(t, u, 1)
	c.Advance(DefaultResettle + time.Second)
	u.Sweep(t.Context())
	if err := u.Dispatched(o, c.Now()); err != nil {
		t.Fatal(err)
	}
	u.PublishWaiting(t.Context())
	if u.Journal().Usage().Open != 1 {
		t.Error("an attempt under way was struck from the journal")
	}
	if all := told(t, conn); len(all) != 1 {
		t.Errorf("told: got %d, want 1, in %v", len(all), all)
	}
}

func TestTheReceiptOfAVoidAttemptIsAcknowledgedByItsOwnHub(t *testing.T) {
	w, a := newWindow(t), newAgent(1)
	o, r := w.attempt(a, 1)
	if err := errors.Join(w.usage.Dispatched(o, w.clock.Now()), w.usage.Vanished(t.Context(), o)); err != nil {
		t.Fatal(err)
	}
	w.workReceipts.receive(a, []session.Receipt{arrived(workreceipt.Sign(a.key, r))})
	if got := a.acked(t); got.Key != r.Key() {
		t.Errorf("acknowledged: Key: got %+v, want %+v", got.Key, r.Key())
	} else if got.Refused != "" {
		t.Errorf(`acknowledged: Refused: got %q, want ""`, got.Refused)
	}
	w.quiet(t)
}
