package settlement

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// A hub keeps its usage until it hears of it here, so every event must be
// answered: new, repeated, or set aside.
func TestHubsHearOfEveryEventThatNeedsNothingMore(t *testing.T) {
	b := setup(t)
	heard := make(chan []string, 16)
	sub, err := b.bus.Subscribe(bus.SubjectRecorded("hub"), "", func(_ context.Context, m bus.Message) {
		notice := &eventsv1.SettledNotice{}
		if err := proto.Unmarshal(m.Data, notice); err != nil {
			t.Error(err)
		}
		heard <- notice.GetRequestIds()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sub.Stop(); err != nil {
			t.Error(err)
		}
	})
	expect := func(what, request string) {
		t.Helper()
		for {
			select {
			case requests := <-heard:
				if slices.Contains(requests, request) {
					return
				}
			case <-time.After(patience):
				t.Fatalf("the hub hears nothing of %s", what)
			}
		}
	}
	e := b.usage(t)
	b.publish(t, "1", encode(t, e))
	expect("a new event", e.GetRequestId())
	b.publish(t, "2", encode(t, e))
	expect("a repeated event", e.GetRequestId())
	bad := b.usage(t)
	bad.Attempt = 0
	b.publish(t, "3", encode(t, bad))
	expect("an event that is set aside", bad.GetRequestId())
}
