package edgegateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// leaveBefore asks, and hangs up so long after the hub was asked. It returns what
// the gateway then sent to the hub: a commit or not, and how the stream ended.
func (f *fleet) leaveBefore(body string, after time.Duration, then func(*played) error) (committed bool, end error) {
	f.t.Helper()
	ctx, hangUp := context.WithCancel(f.t.Context())
	defer hangUp()
	type said struct {
		committed bool
		end       error
	}
	heard := make(chan said, 1)
	f.hub.set(func(p *played) error {
		f.clock.standStill(after)
		hangUp()
		var s said
		for s.end == nil {
			m, err := p.stream.Recv()
			s.committed = s.committed || m.GetCommit() != nil
			s.end = err
		}
		heard <- s
		return then(p)
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.key)
	if resp, err := f.client.Do(req); err == nil {
		resp.Body.Close()
		f.t.Errorf("got %d for a client that left", resp.StatusCode)
	}
	s := awaited(f.t, heard)
	return s.committed, s.end
}

func TestAClientThatLeavesBeforeContentCommitsInLeaving(t *testing.T) {
	f := start(t)
	nothing := func(*played) error { return nil }
	for name, c := range map[string]struct {
		body  string
		after time.Duration
		then  func(*played) error
		asks  bool // the hub to bill
		bills bool
	}{
		"a stream, late":                {helloStream, freeTime, nothing, true, true},
		"a whole answer, late":          {hello, freeTime, nothing, true, true},
		"late, and nothing is owed":     {hello, freeTime, failing(upstreamFailed()), true, false},
		"within the free time":          {hello, 0, nothing, false, false},
		"a stream within the free time": {helloStream, 0, nothing, false, false},
	} {
		committed, end := f.leaveBefore(c.body, c.after, c.then)
		if committed != c.asks || errors.Is(end, io.EOF) != c.asks {
			t.Errorf("%s: got a commit %v and %v, want a commit and a closed stream %v", name, committed, end, c.asks)
		}
		want := uint32(0)
		if c.bills {
			want = 1
		}
		w := f.report()
		if w.GetOutcome() != billingv1.Outcome_OUTCOME_CLIENT_GONE || w.GetCommittedAttempt() != want ||
			w.GetRelayedTokens() != 0 || w.GetRelayedBytes() != 0 {
			t.Errorf("%s: got the request report %v, want attempt %d committed", name, w, want)
		}
	}
}

// The vendor has the prompt and bills it, however early the client leaves.
func TestAClientThatLeavesAGatewayModelAtOnceCommitsInLeaving(t *testing.T) {
	f := newFleet(t)
	f.catalog.models[0].Kind = catalogv1.Kind_KIND_GATEWAY
	f.start()
	for name, body := range map[string]string{"a stream": helloStream, "a whole answer": hello} {
		committed, end := f.leaveBefore(body, 0, func(*played) error { return nil })
		if !committed {
			t.Errorf("%s: got no commit, want one", name)
		}
		if !errors.Is(end, io.EOF) {
			t.Errorf("%s: got the end %v, want a closed stream", name, end)
		}
		w := f.report()
		if got := w.GetOutcome(); got != billingv1.Outcome_OUTCOME_CLIENT_GONE {
			t.Errorf("%s: outcome: got %v, want a client that left", name, got)
		}
		if got := w.GetCommittedAttempt(); got != 1 {
			t.Errorf("%s: committed attempt: got %d, want 1", name, got)
		}
	}
}

// freeTime is the relay's.
const freeTime = time.Second
