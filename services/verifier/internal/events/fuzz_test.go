package events

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/offers"
)

// What anybody on NATS may say neither stops the verifier nor exceeds a bound.
func FuzzMessagesAreReadWithinBounds(f *testing.F) {
	for _, m := range []proto.Message{report("hub-1", 1),
		usage(ids.RequestID{15: 1}, "hub-1", eventsv1.ClaimState_CLAIM_STATE_VALID),
		&eventsv1.ShapeReport{Shapes: []*eventsv1.ShapeCount{{PromptLength: 7, Requests: 30}}}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, o, ok := usageFrom(bus.SubjectUsage("hub-1"), data); ok && len(o.Model) > maxModelID {
			t.Errorf("model of usage: got %d bytes, want at most %d", len(o.Model), maxModelID)
		}
		presence := &eventsv1.Presence{}
		if proto.Unmarshal(data, presence) == nil {
			if r, _, err := reportFromProto(presence); err == nil {
				inBounds(t, r)
			}
		}
		shapes := &eventsv1.ShapeReport{}
		if proto.Unmarshal(data, shapes) == nil {
			if _, counts, err := shapesFromProto(shapes); err == nil && len(counts) > maxShapes {
				t.Errorf("shapes: got %d, want at most %d", len(counts), maxShapes)
			}
		}
	})
}

func inBounds(t *testing.T, r offers.Report) {
	t.Helper()
	for _, s := range r.Sessions {
		for _, m := range s.Models {
			if m.Window < 0 || m.Window > maxWindow {
				t.Errorf("window: got %d, want 0 to %d", m.Window, maxWindow)
			}
		}
	}
}
