package inference

import (
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

func TestABoundFitsTheWindowOfItsCandidate(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	for name, c := range map[string]struct {
		window, explicit, want int64
	}{
		"a wide window":                 {window: 8192, want: 1000},
		"a window that nobody reported": {window: 0, want: 1000},
		"a narrow window":               {window: 600, want: 500},
		"a window below the prompt":     {window: 50, want: 1},
		"a bound of the client's":       {window: 600, explicit: 1000, want: 1000},
	} {
		req, err := openaiapi.Parse(openaiapi.Chat, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		m := &modelAttempt{
			sent: req.Body("m", 1000),
			asks: admission.Request{
				ExplicitMaxTokens: c.explicit,
				Bounds:            admission.Bounds{MaxOutputTokens: 1000, PromptRoom: 100, HoldPromptTokens: 1 << 20},
			},
		}
		sent, bound := m.bodyFor(&routerv1.Candidate{ContextLength: c.window})
		if bound != c.want {
			t.Errorf("%s: got a bound of %d, want %d", name, bound, c.want)
		}
		again, err := openaiapi.Parse(openaiapi.Chat, sent.Body)
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case again.MaxTokens != c.want:
			t.Errorf("%s: the provider reads: got %d, want %d", name, again.MaxTokens, c.want)
		case again.Model != "m":
			t.Errorf(`%s: again.Model: got %q, want "m"`, name, again.Model)
		}
	}
}

func TestAReportSaysHowLongTheClientTookToRead(t *testing.T) {
	for name, stream := range map[string]bool{"a stream": true, "a whole answer": false} {
		m := failedAttempt(t.Context(), "a")
		now := m.runner.Clock.(*clock.Manual)
		m.req.Answer.Stream = stream
		started := now.Now()
		now.Advance(300 * time.Millisecond)
		m.contentAt = now.Now()
		now.Advance(time.Second)
		for range 2 {
			if err := m.write(func() error { now.Advance(2 * time.Second); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		m.record(&routerv1.Candidate{}, served(), started)
		got, want := m.result.Attempts[0], [3]int64{300, 5000, 4000}
		if !stream {
			want = [3]int64{}
		}
		if got.GetFirstContentMs() != want[0] {
			t.Errorf("%s: the first content: got %d ms, want %d", name, got.GetFirstContentMs(), want[0])
		}
		if got.GetContentMs() != want[1] {
			t.Errorf("%s: from there to the end: got %d ms, want %d", name, got.GetContentMs(), want[1])
		}
		if got.GetClientMs() != want[2] {
			t.Errorf("%s: of it the client: got %d ms, want %d", name, got.GetClientMs(), want[2])
		}
	}
}

// committedOnly is a client that hears who serves, and keeps nothing.
type committedOnly struct{ Sink }

func (committedOnly) Commit(Served) {}

func (committedOnly) Event(rewrite.Event) {}

// A stream may be open for minutes, and the memory of its body with it.
func TestTheBodyIsDroppedOnceAnAttemptIsCommitted(t *testing.T) {
	for name, m := range map[string]*modelAttempt{
		"on the first model": failedAttempt(t.Context(), "a", "b"),
		"on the next model":  failedAttempt(t.Context(), "a", "b").successor(),
	} {
		m.out.sink = committedOnly{}
		m.committed(&routerv1.Candidate{}, m.runner.Clock.Now())
		if m.sent.Body != nil {
			t.Errorf("%s: got a body of %d bytes kept by the attempt, want none", name, len(m.sent.Body))
		}
		if body := m.req.Sent.Body; body != nil {
			t.Errorf("%s: got a body of %d bytes kept by the request, want none", name, len(body))
		}
	}
}

// eager is a hub's stream: the hub hears of a commit at once and is done with the rest of the answer before the attempt
// goes on.
type eager struct {
	grpc.BidiStreamingClient[hubv1.DispatchRequest, hubv1.DispatchResponse]
	now *clock.Manual
}

func (e eager) Send(*hubv1.DispatchRequest) error {
	e.now.Advance(3 * time.Second)
	return nil
}

// The hub may go on before the attempt does, and what it sends then is no part of the time to first content.
func TestTheFirstContentIsTimedBeforeTheHubHearsOfTheCommit(t *testing.T) {
	m := failedAttempt(t.Context(), "a")
	now := m.runner.Clock.(*clock.Manual)
	m.req.Answer.Stream, m.out.stream, m.out.sink = true, true, committedOnly{}
	m.begin()
	started := now.Now()
	now.Advance(2 * time.Second)
	s := &hubStream{stream: eager{now: now}}
	const first = `{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hel"}}]}`
	v := m.event(&routerv1.Candidate{}, s, &hubv1.DispatchEvent{Json: []byte(first), FirstContent: true})
	if v.final() {
		t.Fatalf("the first content: got the verdict %v, want none", v)
	}
	m.record(&routerv1.Candidate{}, served(), started)
	got := m.result.Attempts[0]
	if got.GetFirstContentMs() != 2000 {
		t.Errorf("the first content: got %d ms, want 2000", got.GetFirstContentMs())
	}
	if got.GetContentMs() != 3000 {
		t.Errorf("from there to the end: got %d ms, want 3000", got.GetContentMs())
	}
	if m.result.FirstContent != 2*time.Second {
		t.Errorf("the first content of the request: got %v, want %v", m.result.FirstContent, 2*time.Second)
	}
}
