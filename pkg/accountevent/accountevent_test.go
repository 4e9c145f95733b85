package accountevent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/ids"
)

func newEvent(t *testing.T, kind accountevent.Kind) accountevent.Event {
	t.Helper()
	id, err := accountevent.NewID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return accountevent.Event{ID: id, Kind: kind, Provider: provider, At: time.UnixMicro(1_790_000_000_000_001).UTC(),
		Data: []byte(`{"a":1}`)}
}

func TestAnEventIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	e := newEvent(t, accountevent.PayoutConfirmed)
	subject, data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := accountevent.Decode(subject, data)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != e.ID || got.Kind != e.Kind || got.Provider != e.Provider || !got.At.Equal(e.At) || !bytes.Equal(got.Data, e.Data) {
		t.Errorf("got %+v, want %+v", got, e)
	}
	if _, _, err := newEvent(t, accountevent.BalanceLow).Encode(); err == nil {
		t.Error("a kind that does not travel: got no error, want one")
	}
}

// A service that may publish on one subject must not speak for another.
func TestAMessageThatIsNotOfItsSubjectIsRefused(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*accountevent.Event){
		"no id":          func(e *accountevent.Event) { e.ID = accountevent.ID{} },
		"no provider":    func(e *accountevent.Event) { e.Provider = ids.ProviderID{} },
		"no JSON":        func(e *accountevent.Event) { e.Data = []byte(`{`) },
		"no object":      func(e *accountevent.Event) { e.Data = []byte(`[]`) },
		"null":           func(e *accountevent.Event) { e.Data = []byte(`null`) },
		"too large":      func(e *accountevent.Event) { e.Data = append([]byte(`{}`), make([]byte, accountevent.MaxData)...) },
		"another's kind": func(e *accountevent.Event) { e.Kind = accountevent.StatusChanged },
	}
	for name, do := range spoil {
		e := newEvent(t, accountevent.PayoutConfirmed)
		do(&e)
		_, data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := accountevent.Decode(bus.SubjectPayoutConfirmed, data); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := accountevent.Decode(bus.SubjectStatusChanged, data); err == nil && e.Kind != accountevent.StatusChanged {
			t.Errorf("kind: got %s, want %s", e.Kind, accountevent.StatusChanged)
		}
		_, _ = accountevent.DecodeNote(data) // it must not panic
	})
}

// outbox is what a producer keeps.
type outbox struct {
	mu      sync.Mutex
	due     []accountevent.Event
	dropped chan accountevent.ID
	err     error
}

func (o *outbox) TakeAccountEvents(context.Context, int) ([]accountevent.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	due := o.due
	o.due = nil
	return due, o.err
}

func (o *outbox) DropAccountEvents(_ context.Context, stored []accountevent.ID) error {
	for _, id := range stored {
		o.dropped <- id
	}
	return nil
}

const secret = "0123456789abcdef"

// as connects to a server as a service.
func as(t *testing.T, s *natsserver.Server, id bus.Identity) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.Config{URL: s.URL(), Secret: secret, Identity: &id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAnEventIsPublishedAndForgottenOnceItIsNoted(t *testing.T) {
	t.Parallel()
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	e := newEvent(t, accountevent.PenaltyCreated)
	box := &outbox{due: []accountevent.Event{e}, dropped: make(chan accountevent.ID, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	ledger := as(t, s, bus.Identity{Services: []string{"billing-ledger"}})
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		p := &accountevent.Publisher{Outbox: box, Bus: as(t, s, bus.Identity{Services: []string{"settlement"}}),
			Notes: bus.SubjectNotedSettlement, Queue: "settlement", Log: slog.New(slog.DiscardHandler)}
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	group.Go(func() {
		cfg := bus.ConsumerConfig{Stream: bus.AccountStream, Durable: bus.DurableBilling}
		err := ledger.Consume(ctx, cfg, func(ctx context.Context, msgs []bus.Msg) error {
			for _, m := range msgs {
				got, err := accountevent.Decode(m.Subject, m.Data)
				if err != nil {
					return err
				}
				note, err := accountevent.EncodeNote([]accountevent.ID{got.ID})
				if err != nil {
					return err
				}
				if err := ledger.Publish(ctx, accountevent.NoteOf(m.Subject), note, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if got := <-box.dropped; got != e.ID {
		t.Errorf("forgotten: got %s, want %s", got, e.ID)
	}
}

// Hostile: another service's user tells of a payout, or says that an event is stored.
func TestNoOtherServiceTellsAccountsAnything(t *testing.T) {
	t.Parallel()
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	ledger := as(t, s, bus.Identity{Services: []string{"billing-ledger"}})
	if err := ledger.EnsureStream(t.Context(), bus.AccountStream); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 10)
	for _, note := range []string{bus.SubjectNotedSettlement, bus.SubjectNotedHubs} {
		listener := as(t, s, bus.Identity{Services: []string{"settlement"}})
		if note == bus.SubjectNotedHubs {
			listener = as(t, s, bus.Identity{Services: []string{"provider-hub"}, HubID: "hub-1"})
		}
		if _, err := listener.Subscribe(note, "", func(_ context.Context, m bus.Message) { heard <- m.Subject }); err != nil {
			t.Fatal(err)
		}
	}
	may := map[string][]string{
		"settlement":   {bus.SubjectPayoutConfirmed, bus.SubjectPenaltyCreated},
		"provider-hub": {bus.SubjectStatusChanged, bus.SubjectAddresses},
	}
	for _, service := range []string{"settlement", "provider-hub", "router", "verifier", "edge-gateway", "billing-ledger"} {
		id := bus.Identity{Services: []string{service}}
		if service == "provider-hub" {
			id.HubID = "hub-1"
		}
		conn := as(t, s, id)
		for _, subject := range bus.AccountStream.Subjects {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err := conn.PublishStream(ctx, subject, rand.Text(), []byte("forged"), nil)
			cancel()
			if allowed := slices.Contains(may[service], subject); allowed != (err == nil) {
				t.Errorf("%s on %s: got the error %v, want it allowed %t", service, subject, err, allowed)
			}
		}
		if service == "billing-ledger" {
			continue
		}
		for _, note := range []string{bus.SubjectNotedSettlement, bus.SubjectNotedHubs} {
			if err := errors.Join(conn.Publish(t.Context(), note, []byte("forged"), nil), conn.Flush(t.Context())); err != nil {
				t.Errorf("%s: %v", service, err)
			}
		}
	}
	if err := ledger.Publish(t.Context(), bus.SubjectNotedHubs, []byte("true"), nil); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != bus.SubjectNotedHubs || len(heard) != 0 {
		t.Errorf("notes: got %s and %d more, want the ledger's alone", got, len(heard))
	}
}
