package events

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/session"
)

type fixture struct {
	usage   *Usage
	waiting *WaitingReceipts
	clock   *clock.Manual
	bus     *bus.Conn
	got     chan bus.Msg
}

func setup(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{clock: clock.NewManual(time.UnixMilli(1_790_000_000_000)), bus: bustest.New(t),
		got: make(chan bus.Msg, 1024)}
	f.waiting = NewWaitingReceipts(f.clock)
	f.usage = NewUsage("hub-a", f.bus, 0, UsageDeps{Clock: f.clock, Log: discard, Closed: f.waiting.Closed})
	if err := f.usage.Open(journal.Config{Dir: t.TempDir(), Clock: f.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.usage.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := f.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.UsageStream, Durable: "billing"},
			func(_ context.Context, list []bus.Msg) error {
				for _, m := range list {
					f.got <- m
				}
				return nil
			})
		if err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// serve journals an attempt of a recorded trace from beginning to end.
func (f *fixture) serve(t *testing.T) *dispatch.Order {
	t.Helper()
	return f.serveIn(t, recorded)
}

func (f *fixture) serveIn(t *testing.T, traceparent string) *dispatch.Order {
	t.Helper()
	id, err := ids.NewRequest(f.clock.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := &dispatch.Order{Request: id, Attempt: 2, Provider: ids.ProviderID{1}, Model: "m",
		Traceparent: traceparent}
	served := meter.Served{Ending: meter.Completed, Recount: 3, MaxOutput: 9, DeliveredBytes: 9,
		Claim: meter.Claim{State: meter.Absent}}
	if err := errors.Join(f.usage.Dispatched(o, f.clock.Now()), f.usage.Committed(o)); err != nil {
		t.Fatal(err)
	}
	publish, err := f.usage.Final(t.Context(), &dispatch.Usage{Order: o, Served: served, Bill: meter.Charge(served)})
	if err != nil {
		t.Fatal(err)
	}
	publish()
	return o
}

func (f *fixture) next(t testing.TB) bus.Msg {
	t.Helper()
	select {
	case m := <-f.got:
		return m
	case <-time.After(time.Minute):
		t.Fatal("no usage came")
		return bus.Msg{}
	}
}

func TestUnsettledUsageIsPublishedAgainEverMoreRarely(t *testing.T) {
	f := setup(t)
	o := f.serve(t)
	f.usage.publish(t.Context(), batch(f.usage.queue, <-f.usage.queue))
	first := f.next(t)
	if first.ID != o.Request.String() {
		t.Errorf("o.Request: got %q, want %q", o.Request.String(), first.ID)
	} else if !strings.Contains(first.Header.Get("traceparent"), "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf(`first.Header.Get("traceparent"): got %q, want "0af7651916cd43dd8448eb211c80319c" in it`,
			first.Header.Get("traceparent"))
	}
	published := func(after time.Duration) bool {
		f.clock.Advance(after)
		now := f.clock.Now()
		due := false
		u := f.usage
		u.mu.Lock()
		p := u.pending[keyOf(o)]
		due = p != nil && !now.Before(p.next) && now.Add(-DefaultResettle).After(time.UnixMilli(1_790_000_000_000))
		u.mu.Unlock()
		u.sweep(t.Context(), now.Add(-DefaultResettle))
		return due
	}
	if published(29 * time.Second) {
		t.Error("published again before 30 s")
	}
	if !published(2 * time.Second) {
		t.Error("not published again after 30 s")
	}
	if again := f.next(t); !strings.HasPrefix(again.ID, o.Request.String()+"/") {
		t.Errorf("second publication: got %q, want the prefix %q", again.ID, o.Request.String()+"/")
	} else if string(again.Data) != string(first.Data) {
		t.Errorf("again.Data: got %q, want %q", string(again.Data), string(first.Data))
	} else if again.Header.Get("traceparent") != first.Header.Get("traceparent") {
		t.Errorf("the second publication belongs to trace %q", again.Header.Get("traceparent"))
	}
	if published(29 * time.Second) {
		t.Error("published a third time within 30 s")
	}
	switch {
	case !published(2 * time.Second):
		t.Error("the end of the second pause: published(2*time.Second): got false, want true")
	case published(59 * time.Second):
		t.Error("within the third pause, twice as long: published(59*time.Second): got true, want false")
	case !published(2 * time.Second):
		t.Error("the end of the third pause, twice as long: published(2*time.Second): got false, want true")
	}
	for range 10 {
		if !published(time.Hour) {
			t.Error("not published again after an hour")
		}
	}
	if published(9 * time.Minute) {
		t.Error("a pause of 10 minutes, the longest: published(9*time.Minute): got true, want false")
	} else if !published(2 * time.Minute) {
		t.Error("a pause of 10 minutes, the longest: published(2*time.Minute): got false, want true")
	}
	if err := f.usage.Settled([]ids.RequestID{o.Request, {1}}); err != nil {
		t.Fatal(err)
	}
	if published(2 * time.Hour) {
		t.Error("of settled usage: published(2*time.Hour): got true, want false")
	} else if got := f.usage.Unsettled(); got != 0 {
		t.Errorf("of settled usage: f.usage.Unsettled(): got %d, want 0", got)
	} else if got := f.usage.Journal().Usage().Unsettled; got != 0 {
		t.Errorf("of settled usage: f.usage.Journal().Usage().Unsettled: got %d, want 0", got)
	}
}

func TestUsageWaitsForAKeyAndIsSealedWithIt(t *testing.T) {
	f := setup(t)
	taken := make(chan usageseal.Key)
	ledger := KeyReceiver{Name: "ledger", Hand: func(_ context.Context, _ string, key usageseal.Key) error {
		taken <- key
		return nil
	}}
	keys := NewKeys("hub-a", []KeyReceiver{ledger}, rand.Reader, clock.System, discard)
	f.usage = lifeWith(t, simdisk.New(), f.bus, UsageDeps{Clock: f.clock, Log: discard, Keys: keys})
	f.serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = keys.Run(ctx) })
	loops.Go(func() { _ = f.usage.Publish(ctx) })
	key := <-taken // until then nothing is published: the consumer gets the usage that is sealed
	if m := f.next(t); !key.Opens(m.Data) {
		t.Error("got usage that the key that was handed over does not open, want it sealed with that key")
	}
	cancel()
	loops.Wait()
}

func TestUsageOutlivesAServerThatLostItsStore(t *testing.T) {
	server := bustest.NewServer(t)
	conn := bustest.Connect(t, server)
	c := clock.NewManual(time.UnixMilli(1_790_000_000_000))
	f := &fixture{clock: c, bus: conn, usage: NewUsage("hub-a", conn, 0, UsageDeps{Clock: c, Log: discard})}
	if err := f.usage.Open(journal.Config{Dir: t.TempDir(), Clock: c}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.usage.Close() })
	o := f.serve(t)
	f.usage.publish(t.Context(), batch(f.usage.queue, <-f.usage.queue))
	cfg := server.Config()
	server.Stop()
	cfg.StoreDir = t.TempDir() // wiped
	again, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	other := bustest.Connect(t, again)
	got := make(chan string, 16)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := other.Consume(ctx, bus.ConsumerConfig{Stream: bus.UsageStream, Durable: "billing"},
			func(_ context.Context, list []bus.Msg) error {
				for _, m := range list {
					got <- m.ID
				}
				return nil
			}); err != nil {
			t.Error(err)
		}
	}()
	defer func() { cancel(); <-done }()
	deadline := time.After(2 * time.Minute)
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for {
		select {
		case id := <-got:
			if !strings.HasPrefix(id, o.Request.String()) {
				t.Errorf("id: got %q, want the prefix %q", id, o.Request.String())
			}
			return
		case <-retry.C:
			c.Advance(time.Hour)
			f.usage.sweep(t.Context(), c.Now())
		case <-deadline:
			t.Fatal("usage was lost with the store")
		}
	}
}

func TestDiskThatFailsStopsNewWorkAndReadiness(t *testing.T) {
	var broken atomic.Bool
	disk := simdisk.New()
	disk.Hook = func(op simdisk.Op, _ string) error {
		if op == simdisk.OpSync && broken.Load() {
			return errors.New("the disk is gone")
		}
		return nil
	}
	c := clock.NewManual(time.UnixMilli(1_790_000_000_000))
	f := &fixture{clock: c, usage: NewUsage("hub-a", nil, 0, UsageDeps{Clock: c, Log: discard})}
	if err := f.usage.Ready(); err == nil {
		t.Error("ready without a journal")
	}
	if err := f.usage.Open(journal.Config{Disk: disk, Clock: c}); err != nil {
		t.Fatal(err)
	}
	f.serve(t)
	if err := f.usage.Ready(); err != nil {
		t.Error(err)
	}
	broken.Store(true)
	o := &dispatch.Order{Request: ids.RequestID{7}, Attempt: 1}
	if err := f.usage.Dispatched(o, c.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.usage.Final(t.Context(), &dispatch.Usage{Order: o}); err == nil {
		t.Error("a FINAL that is not on disk is acknowledged")
	}
	<-f.usage.Journal().Failed()
	o.Attempt = 2
	if err := f.usage.Dispatched(o, c.Now()); !fault.Is(err, fault.HubDraining) {
		t.Errorf("dispatch on a failed disk: got the error %v, want the reason %v", err, fault.HubDraining)
	}
	if err := f.usage.Ready(); err == nil {
		t.Error("ready on a failed disk")
	}
}

func TestBrokenNoticesHaveNoEffect(t *testing.T) {
	f := setup(t)
	f.serve(t)
	broken, err := proto.Marshal(&eventsv1.SettledNotice{RequestIds: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{broken, {0xff}} {
		if err := onNotice(data, f.usage.Settled); err == nil {
			t.Errorf("notice %x is accepted", data)
		}
	}
	if f.usage.Unsettled() != 1 {
		t.Error("usage was settled by a broken notice")
	}
}

func TestUsageBeyondTheQueueIsLeftToTheSweep(t *testing.T) {
	f := setup(t)
	for range usageQueue {
		f.usage.queue <- waiting{}
	}
	f.serve(t) // must not block
	if f.usage.Unsettled() != 1 {
		t.Errorf("f.usage.Unsettled(): got %d, want 1", f.usage.Unsettled())
	} else if len(f.usage.queue) != usageQueue {
		t.Errorf("len(f.usage.queue): got %d, want %d", len(f.usage.queue), usageQueue)
	}
}

func TestAttemptsBeyondTheQueueAreDroppedAndCounted(t *testing.T) {
	a := NewAttempts("hub-a", nil, slog.New(slog.DiscardHandler))
	for range attemptQueue + 7 {
		a.Add(dispatch.Report{})
	}
	if a.Dropped() != 7 {
		t.Errorf("a.Dropped(): got %d, want 7", a.Dropped())
	} else if len(a.queue) != attemptQueue {
		t.Errorf("len(a.queue): got %d, want %d", len(a.queue), attemptQueue)
	}
}

func TestPresenceIsSplitByNumberAndBySize(t *testing.T) {
	p := NewPresence("hub-a", "addr", 1, nil, registry.New(nil, nil, nil, 0), slog.New(slog.DiscardHandler))
	small := make([]session.View, 1001)
	switch parts := p.parts(small); {
	case len(parts) != 3:
		t.Errorf("parts of small sessions: len(parts): got %d, want 3", len(parts))
	case len(parts[0]) != 500:
		t.Errorf("parts of small sessions: len(parts[0]): got %d, want 500", len(parts[0]))
	case len(parts[2]) != 1:
		t.Errorf("parts of small sessions: len(parts[2]): got %d, want 1", len(parts[2]))
	}
	large := make([]session.View, 100)
	for i := range large {
		for range 256 {
			large[i].Offers = append(large[i].Offers, session.Offer{Model: strings.Repeat("m", 200),
				Quantization: strings.Repeat("q", 32), Engine: strings.Repeat("e", 32), Revision: strings.Repeat("r", 64)})
		}
	}
	total := 0
	for _, part := range p.parts(large) {
		total += len(part)
		if size := proto.Size(&eventsv1.Presence{Sessions: part}); size > 700<<10 {
			t.Errorf("a part: got %d, want at most 700<<10", size)
		}
	}
	if total != 100 {
		t.Errorf("sessions in all parts: got %d, want 100", total)
	}
	if parts := p.parts(nil); len(parts) != 0 {
		t.Errorf("parts of nothing: got %d, want 0", len(parts))
	}
}

func TestEveryEndingOutcomeAndClaimHasItsNumber(t *testing.T) {
	seen := map[int32]bool{}
	for _, e := range meter.Endings() {
		n := int32(endingOf(e))
		if n == 0 {
			t.Errorf("%v: endingOf(e): got 0, want any but 0", e)
		} else if seen[n] {
			t.Errorf("%v: seen[n]: got true, want false", e)
		}
		seen[n] = true
	}
	outcomes := map[int32]bool{}
	for _, o := range dispatch.Outcomes() {
		n := int32(outcomeOf(o))
		if n == 0 {
			t.Errorf("%v: outcomeOf(o): got 0, want any but 0", o)
		} else if outcomes[n] {
			t.Errorf("%v: outcomes[n]: got true, want false", o)
		}
		outcomes[n] = true
	}
	for c := meter.Absent; c <= meter.Absurd; c++ {
		if claimOf(c) == 0 {
			t.Errorf("the number of claim %d: got 0, want any but 0", c)
		}
	}
}

func TestWhatNATSDidNotTakeIsDueAtOnce(t *testing.T) {
	f := setup(t)
	o := f.serve(t)
	away, err := bus.Connect(t.Context(), bus.Config{URL: bustest.NewServer(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	away.Close()
	near := f.usage.bus
	f.usage.bus = away
	for range 5 {
		f.clock.Advance(DefaultResettle)
		if f.usage.sweep(t.Context(), f.clock.Now()) {
			t.Fatal("a sweep into nowhere says that all was taken")
		}
	}
	f.usage.bus = near
	if !f.usage.sweep(t.Context(), f.clock.Now()) {
		t.Fatal("NATS is back and did not take it")
	}
	if m := f.next(t); !strings.HasPrefix(m.ID, o.Request.String()+"/") {
		t.Errorf("published: got %q, want the prefix %q", m.ID, o.Request.String()+"/")
	}
}

func TestUsageWhoseJournalWasSlowIsPublishedAllTheSame(t *testing.T) {
	f := setup(t)
	o := f.serve(t)
	key := keyOf(o)
	key.Attempt = 3
	impatient, cancel := context.WithCancel(t.Context())
	if err := f.usage.Journal().Dispatch(key, []byte{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := f.usage.keep(impatient, f.usage.Journal(), key, o.Request.String(), []byte{}, ""); err == nil {
		t.Skip("the disk was quicker than the caller")
	}
	if f.usage.Unsettled() != 2 {
		t.Errorf("got %d unsettled, want the slow one too", f.usage.Unsettled())
	}
}
