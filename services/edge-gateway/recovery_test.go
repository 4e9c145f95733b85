package edgegateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestALongRequestIsRenewedWithWhatWasRelayed(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.hub.set(func(p *played) error {
			return p.steps(
				func() error { return p.event(helloChunk, true, 1) }, p.committed,
				elapse(20*time.Second),
				func() error { return p.event(moreChunk, false, 3) },
				elapse(15*time.Second),
				func() error { return p.finish(9, 3) })
		})
		id := f.post(helloStream)
		read(f.t, id)
		f.report()
		var last *billingv1.RunningRequest
		if len(f.billing.renewals) != 2 {
			f.t.Fatalf("got %d renewals, want 2", len(f.billing.renewals))
		}
		for range 2 {
			req := awaited(f.t, f.billing.renewals)
			last = req.GetRequests()[0]
		}
		want := &billingv1.RunningRequest{
			RequestId: id.Header.Get("X-Svc-Request-ID"), CommittedAttempt: 1, HubId: "hub-1", ProviderId: providerA,
			RelayedTokens: 3, RelayedBytes: int64(len(helloChunk) + len(moreChunk)),
			Ticket: []byte("ticket of " + id.Header.Get("X-Svc-Request-ID")),
		}
		if !proto.Equal(last, want) {
			f.t.Errorf("renewed: got %v, want %v", last, want)
		}
	})
}

func TestTheReportNamesTheHubAndWhatItMetered(t *testing.T) {
	f := start(t)
	f.hub.byAttempt(failing(upstreamFailed()), wholeAnswer)
	read(t, f.post(hello))
	w := f.report()
	switch {
	case len(w.GetAttempts()) != 2:
		t.Errorf("the request report: len(w.GetAttempts()): got %d, want 2, in %v", len(w.GetAttempts()), w)
	case w.GetAttempts()[1].GetHubId() != "hub-1":
		t.Errorf(`the request report: w.GetAttempts()[1].GetHubId(): got %q, want "hub-1"`, w.GetAttempts()[1].GetHubId())
	case !proto.Equal(w.GetMetered(), &billingv1.Metered{PromptTokens: 9, CompletionTokens: 3}):
		t.Errorf("the request report: w.GetMetered(): got %v, want %v", w.GetMetered(),
			&billingv1.Metered{PromptTokens: 9, CompletionTokens: 3})
	}
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error { return p.fail(upstreamFailed()) })
	})
	read(t, f.post(helloStream))
	if w := f.report(); w.GetMetered() != nil {
		t.Errorf("of an answer that was not finished the request report: w.GetMetered(): got %v, want nil", w.GetMetered())
	} else if w.GetRelayedTokens() != 1 {
		t.Errorf("of an answer that was not finished the request report: w.GetRelayedTokens(): got %d, want 1",
			w.GetRelayedTokens())
	}
}

// stoppable serves the gateway on a server that can end its requests as one
// does whose time to drain is over.
func (f *fleet) stoppable() (stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	server := httptest.NewUnstartedServer(f.svc.Handler())
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	f.base, f.client = server.URL, server.Client()
	f.t.Cleanup(server.Close)
	f.t.Cleanup(func() { cancel(nil) })
	return func() { cancel(errors.New("stopped")) }
}

func TestAStopIsThePlatformsFaultAndNotTheClients(t *testing.T) {
	f := start(t)
	stop := f.stoppable()
	how := make(chan error, 1)
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error {
				stop()
				_, err := p.stream.Recv()
				how <- err
				return err
			})
	})
	body := read(t, f.post(helloStream))
	switch {
	case !strings.Contains(body, helloChunk):
		t.Errorf("the client heard: got %q, want %q in it", body, helloChunk)
	case !strings.Contains(body, `"code":"service_unavailable"`):
		t.Errorf("the client heard: got %q, want %q in it", body, `"code":"service_unavailable"`)
	case strings.Contains(body, "[DONE]"):
		t.Errorf(`the client heard: got %q, want it without "[DONE]"`, body)
	}
	if err := awaited(t, how); err == nil {
		t.Error("the hub's stream, broken off: got no error, want one")
	} else if errors.Is(err, io.EOF) {
		t.Errorf("the hub's stream, broken off: got the error %v, want any but %v", err, io.EOF)
	}
	switch w := f.report(); {
	case w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED:
		t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_FAILED)
	case w.GetCommittedAttempt() != 1:
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 1", w.GetCommittedAttempt())
	case w.GetAttempts()[0].GetResult() != "unavailable":
		t.Errorf(`the request report: w.GetAttempts()[0].GetResult(): got %q, want "unavailable"`,
			w.GetAttempts()[0].GetResult())
	case w.GetRelayedTokens() != 1:
		t.Errorf("the request report: w.GetRelayedTokens(): got %d, want 1", w.GetRelayedTokens())
	}
}

func TestAStopBeforeContentIsAnswered(t *testing.T) {
	f := start(t)
	stop := f.stoppable()
	f.hub.set(func(p *played) error {
		stop()
		return untilCanceled(p)
	})
	resp := f.post(hello)
	switch body := read(t, resp); {
	case resp.StatusCode != http.StatusServiceUnavailable:
		t.Errorf("resp.StatusCode: got %d, want 503", resp.StatusCode)
	case resp.Header.Get("Retry-After") == "":
		t.Error(`resp.Header.Get("Retry-After"): got "", want some text`)
	case !strings.Contains(body, `"code":"service_unavailable"`):
		t.Errorf("body: got %q, want %q in it", body, `"code":"service_unavailable"`)
	}
	if w := f.report(); w.GetCommittedAttempt() != 0 {
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 0", w.GetCommittedAttempt())
	} else if w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED {
		t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_FAILED)
	}
}

// stood is a request whose gateway stands still for longer than a lease.
type stood struct {
	path, body string
	// before is what the hub does until then, after what it does afterwards; then
	// it waits, unless it dies.
	before, after []func(*played) error
	dies          bool
	brokenOff     bool // the hub's stream must be, and not closed
	status        int
	seen          string // of the answer until then
	committed     uint32
	tokens        int64
}

func TestAGatewayThatStoodStillRelaysNothingThatNobodyPaysFor(t *testing.T) {
	const secret = "SECRET"
	hidden := strings.Replace(moreChunk, `"lo"`, `"`+secret+`"`, 1)
	hello1 := func(p *played) error { return p.event(helloChunk, true, 1) }
	more := func(p *played) error { return p.event(hidden, false, 3) }
	whole := func(p *played) error { return p.event(strings.Replace(wholeJSON, "Hello", secret, 1), true, 3) }
	finish := func(p *played) error { return p.finish(9, 3) }
	image := func(name, json string, first bool) func(*played) error {
		return func(p *played) error {
			return p.send(&hubv1.DispatchEvent{Name: name, Json: []byte(json), FirstContent: first, CompletionTokens: 1})
		}
	}
	const chat = "/v1/chat/completions"
	withUsage := strings.Replace(helloStream, "{", `{"stream_options":{"include_usage":true},`, 1)
	streamed := stood{path: chat, body: helloStream, before: []func(*played) error{hello1, (*played).committed},
		status: http.StatusOK, seen: `"Hel"`, committed: 1, tokens: 1}
	of := func(s stood, change func(*stood)) stood {
		change(&s)
		return s
	}
	for name, c := range map[string]stood{
		"before a stream's first content": {path: chat, body: helloStream, after: []func(*played) error{hello1},
			brokenOff: true, status: http.StatusServiceUnavailable},
		"before a whole answer": {path: chat, body: hello, after: []func(*played) error{whole}, brokenOff: true,
			status: http.StatusServiceUnavailable},
		"with a whole answer in hand": {
			path: chat, body: hello, before: []func(*played) error{whole, (*played).committed},
			after:  []func(*played) error{finish},
			status: http.StatusServiceUnavailable, committed: 1,
		},
		"within a stream":   of(streamed, func(s *stood) { s.after, s.brokenOff = []func(*played) error{more}, true }),
		"at a stream's end": of(streamed, func(s *stood) { s.after = []func(*played) error{finish} }),
		"with an event that waits for what is billed": of(streamed, func(s *stood) {
			s.body = withUsage
			s.after = []func(*played) error{
				func(p *played) error {
					return p.event(strings.Replace(hidden, `"choices"`, `"usage":{"prompt_tokens":9,"completion_tokens":3},"choices"`,
						1), false, 3)
				}, finish,
			}
		}),
		"with an event that waits for more, of a hub that dies": of(streamed, func(s *stood) {
			s.after, s.dies = []func(*played) error{func(p *played) error {
				return p.send(&hubv1.DispatchEvent{Json: []byte(hidden), CompletionTokens: 3, More: true})
			}}, true
		}),
		"with an image that waits for its cost": {
			path: imagesPath, body: withCost(strings.Replace(paintHello, "{", `{"stream":true,`, 1)),
			before: []func(*played) error{image("image_generation.partial_image", `{"b64_json":"AA"}`, true),
				(*played).committed},
			after:  []func(*played) error{image("image_generation.completed", `{"b64_json":"`+secret+`"}`, false), finish},
			status: http.StatusOK, seen: "AA", committed: 1, tokens: 1,
		},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, secret) })
	}
}

func (c stood) check(t *testing.T, secret string) {
	f := withKinds(t)
	reached, woken, how := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f.hub.set(func(p *played) error {
		for _, step := range c.before {
			if err := step(p); err != nil {
				return err
			}
		}
		close(reached)
		if err := p.held(woken); err != nil {
			return err
		}
		for _, step := range c.after {
			if err := step(p); err != nil {
				return err
			}
		}
		if c.dies {
			return errors.New("the hub dies")
		}
		_, err := p.stream.Recv()
		how <- err
		return err
	})
	answer := make(chan *http.Response, 1)
	go func() { answer <- f.send(c.path, c.body, keyed, "one") }()
	awaited(t, reached)
	var resp *http.Response
	if c.seen != "" {
		resp = awaited(t, answer)
		readUntil(t, resp, c.seen)
	}
	f.billing.lapses()
	f.clock.standStill(61 * time.Second) // a lease, and more
	close(woken)
	if resp == nil {
		resp = awaited(t, answer)
	}
	body := read(t, resp)
	switch {
	case resp.StatusCode != c.status:
		t.Errorf("resp.StatusCode: got %d, want %d", resp.StatusCode, c.status)
	case !strings.Contains(body, `"error":`):
		t.Errorf("body: got %q, want %q in it", body, `"error":`)
	case strings.Contains(body, "[DONE]"):
		t.Errorf(`body: got %q, want it without "[DONE]"`, body)
	case strings.Contains(body, secret):
		t.Errorf("body: got %q, want it without %q", body, secret)
	}
	if !c.dies && !strings.Contains(body, `"code":"service_unavailable"`) {
		t.Errorf("the client gets %s", body)
	}
	if c.brokenOff {
		if err := awaited(t, how); err == nil {
			t.Error("the hub's stream, broken off: got no error, want one")
		} else if errors.Is(err, io.EOF) {
			t.Errorf("the hub's stream, broken off: got the error %v, want any but %v", err, io.EOF)
		}
	}
	w := f.report()
	if w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED || w.GetCommittedAttempt() != c.committed ||
		w.GetMetered() != nil || w.GetRelayedTokens() != c.tokens {
		t.Errorf("the request report says %v", w)
	}
	if !c.dies {
		f.wantEnd(billingv1.KeyEnd_KEY_END_FORGOTTEN)
	}
}

// readUntil reads a stream until it has brought a text.
func readUntil(t testing.TB, resp *http.Response, text string) {
	t.Helper()
	var got []byte
	for buf := make([]byte, 1); !strings.Contains(string(got), text); got = append(got, buf...) {
		if _, err := resp.Body.Read(buf); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
	}
}
