package events

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/meter"
)

// opened returns a Usage on the journal of a directory.
func opened(t *testing.T, dir string, c clock.Clock) *Usage {
	t.Helper()
	u := NewUsage("hub-a", nil, 0, UsageDeps{Clock: c, Log: discard})
	if err := u.Open(journal.Config{Dir: dir, Clock: c}); err != nil {
		t.Fatal(err)
	}
	return u
}

// queued returns the usage that waits for its first publication.
func queued(t *testing.T, u *Usage) *eventsv1.UsageEvent {
	t.Helper()
	select {
	case w := <-u.queue:
		e := &eventsv1.UsageEvent{}
		if err := proto.Unmarshal(w.payload, e); err != nil {
			t.Fatal(err)
		}
		return e
	default:
		t.Fatal("no usage waits")
		return nil
	}
}

func TestUsageKeepsTheModeOfItsProviderOverADeath(t *testing.T) {
	external, webSocket := eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL,
		eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET
	for name, c := range map[string]struct {
		external, vendor bool
		want             eventsv1.ConnectionMode
	}{
		"an agent": {false, false, webSocket}, "an endpoint": {true, false, external}, "a vendor": {true, true, external},
	} {
		dir, now := t.TempDir(), clock.NewManual(time.UnixMilli(1_790_000_000_000))
		id, err := ids.NewRequest(now.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		o := &dispatch.Order{Request: id, Attempt: 1, Provider: ids.ProviderID{1}, Model: "m",
			External: c.external, Vendor: c.vendor}
		u := opened(t, dir, now)
		if err := errors.Join(u.Dispatched(o, now.Now()), u.Committed(o), u.Close()); err != nil {
			t.Fatal(err)
		}
		u = opened(t, dir, now) // the next process
		got := queued(t, u)
		if got.GetConnectionMode() != c.want {
			t.Errorf("%s: mode: got %v, want %v", name, got.GetConnectionMode(), c.want)
		}
		if got.GetVendor() != c.vendor {
			t.Errorf("%s: vendor: got %t, want %t", name, got.GetVendor(), c.vendor)
		}
		if err := u.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARecordOfBeforeTheModeIsPublishedAsItIs(t *testing.T) {
	dir, now := t.TempDir(), clock.NewManual(time.UnixMilli(1_790_000_000_000))
	j, _, err := journal.Open(journal.Config{Dir: dir, Clock: now})
	if err != nil {
		t.Fatal(err)
	}
	id, err := ids.NewRequest(now.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := &dispatch.Order{Request: id, Attempt: 1, Provider: ids.ProviderID{1}, Model: "m"}
	old := dispatched("hub-a", o, now.Now())
	old.ConnectionMode = eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED
	payload, err := encode(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Dispatch(keyOf(o), payload), j.Commit(keyOf(o)), j.Close()); err != nil {
		t.Fatal(err)
	}
	u := opened(t, dir, now)
	defer func() { _ = u.Close() }()
	if got := queued(t, u).GetConnectionMode(); got != eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED {
		t.Errorf("got %v, want none, which readers take for WebSocket", got)
	}
}

func TestWhatTheLedgerSealedIsInUsageOfEveryEnding(t *testing.T) {
	dir, now := t.TempDir(), clock.NewManual(time.UnixMilli(1_790_000_000_000))
	id, err := ids.NewRequest(now.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := &dispatch.Order{Request: id, Attempt: 1, Provider: ids.ProviderID{1}, Model: "m",
		LedgerMAC: []byte("a MAC"), Ticket: []byte("a ticket")}
	check := func(ending string, e *eventsv1.UsageEvent) {
		t.Helper()
		if got := string(e.GetTicket()); got != "a ticket" {
			t.Errorf("%s: ticket: got %q, want that of the order", ending, got)
		}
		if got := string(e.GetLedgerMac()); got != "a MAC" {
			t.Errorf("%s: MAC: got %q, want that of the order", ending, got)
		}
	}
	payload, err := final("hub-a", &dispatch.Usage{Order: o, Served: meter.Served{Ending: meter.Completed}})
	if err != nil {
		t.Fatal(err)
	}
	e := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(payload, e); err != nil {
		t.Fatal(err)
	}
	check("served", e)
	u := opened(t, dir, now)
	if err := errors.Join(u.Dispatched(o, now.Now()), u.Committed(o), u.Close()); err != nil {
		t.Fatal(err)
	}
	u = opened(t, dir, now) // the next process, which knows the order by its journal
	check("lost with the hub", queued(t, u))
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
}

// The seal is over all bytes before it, so no field may come after it.
func TestTheModeOfUsageIsSealed(t *testing.T) {
	payload, err := final("hub-a", &dispatch.Usage{Order: &dispatch.Order{External: true, Vendor: true},
		Served: meter.Served{Ending: meter.Completed}})
	if err != nil {
		t.Fatal(err)
	}
	e := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(payload, e); err != nil {
		t.Fatal(err)
	}
	if e.GetConnectionMode() != eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL {
		t.Errorf("mode: got %v, want external", e.GetConnectionMode())
	}
	seal := e.ProtoReflect().Descriptor().Fields().ByName("seal").Number()
	for i := range e.ProtoReflect().Descriptor().Fields().Len() {
		field := e.ProtoReflect().Descriptor().Fields().Get(i)
		if field.Number() > seal {
			t.Errorf("field %s has the number %d, want at most %d", field.Name(), field.Number(), seal)
		}
	}
}
