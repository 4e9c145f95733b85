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
		f.witness()
		var last *billingv1.RunningRequest
		if len(f.billing.renewals) != 2 {
			f.t.Fatalf("%d renewals, want 2", len(f.billing.renewals))
		}
		for range 2 {
			req := <-f.billing.renewals
			last = req.GetRequests()[0]
		}
		want := &billingv1.RunningRequest{
			RequestId: id.Header.Get("X-Svc-Request-ID"), CommittedAttempt: 1, HubId: "hub-1", ProviderId: providerA,
			RelayedTokens: 3, RelayedBytes: int64(len(helloChunk) + len(moreChunk)),
		}
		if !proto.Equal(last, want) {
			f.t.Errorf("renewed with %v, want %v", last, want)
		}
	})
}

func TestTheWitnessNamesTheHubAndWhatItMetered(t *testing.T) {
	f := start(t)
	f.hub.byAttempt(failing(upstreamFailed()), wholeAnswer)
	read(t, f.post(hello))
	w := f.witness()
	if len(w.GetAttempts()) != 2 || w.GetAttempts()[1].GetHubId() != "hub-1" ||
		!proto.Equal(w.GetMetered(), &billingv1.Metered{PromptTokens: 9, CompletionTokens: 3}) {
		t.Errorf("the witness says %v", w)
	}
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed, func() error { return p.fail(upstreamFailed()) })
	})
	read(t, f.post(helloStream))
	if w := f.witness(); w.GetMetered() != nil || w.GetRelayedTokens() != 1 {
		t.Errorf("of an answer that was not finished the witness says %v", w)
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
	if !strings.Contains(body, helloChunk) || !strings.Contains(body, `"code":"service_unavailable"`) || strings.Contains(body, "[DONE]") {
		t.Errorf("the client heard %q", body)
	}
	if err := <-how; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the hub's stream is closed (%v), as when a client leaves, and not broken off", err)
	}
	if w := f.witness(); w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED || w.GetCommittedAttempt() != 1 ||
		w.GetAttempts()[0].GetResult() != "unavailable" || w.GetRelayedTokens() != 1 {
		t.Errorf("the witness says %v", w)
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
	if body := read(t, resp); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(body, `"code":"service_unavailable"`) {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if w := f.witness(); w.GetCommittedAttempt() != 0 || w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED {
		t.Errorf("the witness says %v", w)
	}
}

func TestAGatewayThatStoodStillRelaysNothingThatNobodyPaysFor(t *testing.T) {
	const still = 61 * time.Second // a lease, and more
	streamed := func(p *played) error { return p.event(helloChunk, true, 1) }
	more := func(p *played) error { return p.event(moreChunk, false, 3) }
	whole := func(p *played) error { return p.event(wholeJSON, true, 3) }
	committed := func(p *played) error { return p.committed() }
	finish := func(p *played) error { return p.finish(9, 3) }
	for name, c := range map[string]struct {
		body          string
		before, after []func(*played) error
		status        int
		committed     uint32
	}{
		"before a stream's first content": {body: helloStream, after: []func(*played) error{streamed}, status: http.StatusServiceUnavailable},
		"before a whole answer":           {body: hello, after: []func(*played) error{whole}, status: http.StatusServiceUnavailable},
		"within a stream": {
			body: helloStream, before: []func(*played) error{streamed, committed}, after: []func(*played) error{more},
			status: http.StatusOK, committed: 1,
		},
		"at a stream's end": {
			body: helloStream, before: []func(*played) error{streamed, committed}, after: []func(*played) error{finish},
			status: http.StatusOK, committed: 1,
		},
		"with a whole answer in hand": {
			body: hello, before: []func(*played) error{whole, committed}, after: []func(*played) error{finish},
			status: http.StatusServiceUnavailable, committed: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			reached, woken, how := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			f.hub.set(func(p *played) error {
				for _, step := range c.before {
					if err := step(p); err != nil {
						return err
					}
				}
				close(reached)
				<-woken
				for _, step := range c.after {
					if err := step(p); err != nil {
						return err
					}
				}
				_, err := p.stream.Recv()
				how <- err
				return err
			})
			answer := make(chan *http.Response, 1)
			go func() { answer <- f.post(c.body) }()
			<-reached
			var resp *http.Response
			if c.status == http.StatusOK { // what was begun has come before it stands still
				resp = <-answer
				readUntil(t, resp, helloChunk)
			}
			f.billing.lapses()
			f.clock.standStill(still)
			close(woken)
			if resp == nil {
				resp = <-answer
			}
			body := read(t, resp)
			if resp.StatusCode != c.status || !strings.Contains(body, `"code":"service_unavailable"`) ||
				strings.Contains(body, "[DONE]") || strings.Contains(body, moreChunk) || strings.Contains(body, wholeJSON) {
				t.Errorf("answered %d %s", resp.StatusCode, body)
			}
			if c.committed == 0 {
				if err := <-how; err == nil || errors.Is(err, io.EOF) {
					t.Errorf("the hub's stream is closed (%v), as when a client leaves, and not broken off", err)
				}
			}
			if w := f.witness(); w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED || w.GetCommittedAttempt() != c.committed ||
				w.GetAttempts()[0].GetResult() != "unavailable" || w.GetMetered() != nil {
				t.Errorf("the witness says %v", w)
			}
		})
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
