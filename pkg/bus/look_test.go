package bus_test

import (
	"errors"
	"slices"
	"testing"

	"svc.internal/pkg/bus"
)

// Under the rights that services have: the owner of a stream may look at whosever consumer, and another
// service at its own alone.
func TestTheOwnerOfAStreamSeesHowFarItsConsumersLag(t *testing.T) {
	for name, s := range servers(t) {
		t.Run(name, func(t *testing.T) {
			owner := s.conn(t, bus.Identity{Services: []string{"billing-ledger"}})
			if _, err := owner.LookAtStream(t.Context(), "USAGE"); !errors.Is(err, bus.ErrMissing) {
				t.Errorf("a stream that is not there: got the error %v, want %v", err, bus.ErrMissing)
			}
			ensure(t, owner, bus.UsageStream)
			_, err := owner.LookAtConsumer(t.Context(), bus.UsageStream.Name, bus.DurableVerifier)
			if !errors.Is(err, bus.ErrMissing) {
				t.Errorf("a consumer that is not there: got the error %v, want %v", err, bus.ErrMissing)
			}
			hub := s.conn(t, bus.Identity{Services: []string{"provider-hub"}, HubID: "hub-1"})
			for _, id := range []string{"a", "b"} {
				_, err := hub.PublishStream(t.Context(), bus.SubjectUsage("hub-1"), id, []byte("x"), nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			state, err := owner.LookAtStream(t.Context(), bus.UsageStream.Name)
			if err != nil {
				t.Fatal(err)
			}
			if state.Messages != 2 {
				t.Errorf("messages: got %d, want 2", state.Messages)
			}
			if state.Newest.IsZero() {
				t.Error("the newest: got no time, want one")
			}
			verifier := s.conn(t, bus.Identity{Services: []string{"verifier"}})
			taken := bus.ConsumerConfig{Stream: bus.UsageStream, Durable: bus.DurableVerifier}
			consume(t, verifier, taken).expect("a", "b")
			consumer, err := owner.LookAtConsumer(t.Context(), bus.UsageStream.Name, bus.DurableVerifier)
			if err != nil {
				t.Fatal(err)
			}
			if consumer.Pending != 0 {
				t.Errorf("not delivered: got %d, want 0", consumer.Pending)
			}
		})
	}
}

func TestTheStreamsOfAServiceAndTheirConsumersAreKnown(t *testing.T) {
	want := []string{"ACCOUNT", "RECEIPTS", "USAGE"}
	if got := bus.OwnStreams("billing-ledger"); !slices.Equal(got, want) {
		t.Errorf("streams: got %q, want %q", got, want)
	}
	want = []string{"billing", "settlement", "verifier"}
	if got := bus.Durables("USAGE"); !slices.Equal(got, want) {
		t.Errorf("consumers: got %q, want %q", got, want)
	}
}
