package edgegateway

import (
	"context"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// The verifier hears what chats looked like, and nothing of what they said.
func TestTheVerifierHearsWhatChatsLookLike(t *testing.T) {
	f := start(t)
	reports := make(chan []byte, 1)
	sub, err := f.svc.deps.Bus.Subscribe(bus.SubjectShapes, "", func(_ context.Context, m bus.Message) {
		reports <- m.Data
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Stop() }()
	const greedy = `{"model":"acme/tiny-1b","temperature":0.0,"messages":[{"role":"user","content":"harbour"}],` +
		`"tools":[{"type":"function","function":{"name":"f"}}]}`
	for range 20 {
		resp := f.post(greedy)
		if body := read(t, resp); resp.StatusCode != http.StatusOK {
			t.Fatalf("status: got %d, want 200, with %s", resp.StatusCode, body)
		}
	}
	for range 19 { // too few to be told
		read(t, f.post(hello))
	}
	// With a context that has ended, Run publishes what was counted.
	ended, end := context.WithCancel(t.Context())
	end()
	f.svc.shapes.Run(ended)
	report := &eventsv1.ShapeReport{}
	select {
	case data := <-reports:
		if err := proto.Unmarshal(data, report); err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("no report came")
	}
	if got := len(report.GetShapes()); got != 1 {
		t.Fatalf("shapes: got %v, want one", report.GetShapes())
	}
	got := report.GetShapes()[0]
	want := &eventsv1.ShapeCount{Greedy: true, Tools: true, Requests: 20, PromptLength: got.GetPromptLength()}
	if !proto.Equal(got, want) {
		t.Errorf("shape: got %v, want %v", got, want)
	}
}
