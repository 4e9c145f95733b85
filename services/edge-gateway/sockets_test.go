package edgegateway

import (
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// TestTheFleetMayBeApart repeats over real gRPC what depends on how a stream
// ends and how faults travel.
func TestTheFleetMayBeApart(t *testing.T) {
	f := connectFleet(t, overSockets).start()
	t.Run("client gone", func(t *testing.T) {
		f.hub.set(func(p *played) error {
			if err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed); err != nil {
				return err
			}
			return untilCanceled(p)
		})
		leave := f.postAndLeave(true, true)
		awaited(f.t, f.hub.opens)
		leave()
		if err := awaited(f.t, f.hub.ended); err == nil {
			t.Error("the dispatch went on")
		}
		if w := f.report(); w.GetOutcome() != billingv1.Outcome_OUTCOME_CLIENT_GONE {
			t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(),
				billingv1.Outcome_OUTCOME_CLIENT_GONE)
		} else if w.GetCommittedAttempt() != 1 {
			t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 1", w.GetCommittedAttempt())
		}
	})
	t.Run("whole", func(t *testing.T) {
		f.hub.set(wholeAnswer)
		resp := f.post(hello)
		if body := read(t, resp); resp.StatusCode != 200 {
			t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
		} else if !strings.Contains(body, `"content":"Hello"`) {
			t.Errorf("body: got %q, want %q in it", body, `"content":"Hello"`)
		}
		f.report()
	})
	t.Run("stream", func(t *testing.T) {
		f.hub.set(streamAnswer)
		body := read(t, f.post(helloStream))
		want := "data: " + roleChunk + "\n\ndata: " + helloChunk + "\n\ndata: " + moreChunk + "\n\ndata: [DONE]\n\n"
		if body != want {
			t.Errorf("body: got %q, want %q", body, want)
		}
		f.report()
	})
	t.Run("refused dispatch", func(t *testing.T) {
		f.hub.byAttempt(refusing(fault.New(fault.Unavailable, fault.ProviderBusy, "busy")), wholeAnswer)
		if resp := f.post(hello); resp.StatusCode != 200 {
			t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
		} else if resp.Header.Get("X-Svc-Provider-ID") != providerB {
			t.Errorf(`resp.Header.Get("X-Svc-Provider-ID"): got %q, want %q`, resp.Header.Get("X-Svc-Provider-ID"), providerB)
		}
		if w := f.report(); w.GetAttempts()[0].GetResult() != "busy" {
			t.Errorf(`the request report: got %q, want "busy"`, w.GetAttempts()[0].GetResult())
		}
	})
	t.Run("refused admission", func(t *testing.T) {
		f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
		wantError(t, f.post(hello), 402, "insufficient_credits")
		f.billing.refuse(nil)
	})
}
