package events

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

const someProvider = "0192f0c0-0000-7000-8000-000000000001"

func TestProvidersWithoutAnIDAndVendorsArePassedOver(t *testing.T) {
	t.Parallel()
	payload, err := proto.Marshal(&eventsv1.Presence{Sessions: []*eventsv1.Session{
		{ProviderId: "nobody"}, {ProviderId: someProvider}, {},
		{ProviderId: "0192f0c0-0000-7000-8000-000000000002", Vendor: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := ids.ParseProvider(someProvider)
	if err != nil {
		t.Fatal(err)
	}
	if got := providersIn(payload); !slices.Equal(got, []ids.ProviderID{want}) {
		t.Errorf("got %v, want %v alone", got, want)
	}
}

func FuzzProvidersOfAPresenceReport(f *testing.F) {
	payload, err := proto.Marshal(&eventsv1.Presence{Sessions: []*eventsv1.Session{{ProviderId: someProvider}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, id := range providersIn(payload) {
			if id.IsZero() {
				t.Errorf("got a provider without an id of %x", payload)
			}
		}
	})
}
