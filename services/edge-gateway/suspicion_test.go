package edgegateway

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// What the router must know of failures travels with each attempt.
func TestAHubHearsWhoseRequestItIsAndWhetherAnotherProviderHasFailedIt(t *testing.T) {
	f := start(t)
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if got := string(req.GetAccountTag()); got != "8 bytes!" {
			t.Errorf("the router is asked for account: got %q, want the ledger's tag", got)
		}
		if !req.GetPriority() {
			t.Error("the router is asked without the account's priority")
		}
		resp := candidates(providerA, providerB, providerC)
		resp.UsualFirstContentMs = 1_234
		return resp, nil
	})
	f.hub.byAttempt(refusing(fault.New(fault.Unavailable, fault.ProviderBusy, "busy")), failing(upstreamFailed()),
		wholeAnswer)
	if resp := f.post(hello); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d, want 200", resp.StatusCode)
	}
	for attempt, elsewhere := range []bool{false, false, true} { // a busy provider has failed nothing
		open := awaited(f.t, f.hub.opens)
		if string(open.GetAccountTag()) != "8 bytes!" || open.GetUsualFirstContentMs() != 1_234 ||
			open.GetFailedElsewhere() != elsewhere {
			t.Errorf("attempt %d: got tag %q, usual %d ms, failed elsewhere %v; want the tag, 1234 and %v",
				attempt+1, open.GetAccountTag(), open.GetUsualFirstContentMs(), open.GetFailedElsewhere(), elsewhere)
		}
	}
}

// What an owner does not let its engine do is no failure, where the request asks for
// such a thing.
func TestAProviderThatDoesNotSupportARequestHasNotFailedIt(t *testing.T) {
	notHere := &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: http.StatusNotImplemented}
	for body, c := range map[string]struct{ media, members, failed bool }{
		hello: {failed: true},
		strings.Replace(hello, "{", `{"kv_transfer_params":{},`,
			1): {members: true},
		strings.Replace(hello, `"Say hello to the world"`, `[{"type":"image_url","image_url":{"url":"https://x.org/a.png"}}]`,
			1): {media: true},
	} {
		f := start(t)
		f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			return candidates(providerA, providerB), nil
		})
		f.hub.byAttempt(failing(notHere), wholeAnswer)
		if resp := f.post(body); resp.StatusCode != http.StatusOK {
			t.Fatalf("got %d, want 200", resp.StatusCode)
		}
		first, second := awaited(f.t, f.hub.opens), awaited(f.t, f.hub.opens)
		switch {
		case first.GetNamesMedia() != c.media:
			t.Errorf("%s: media: got %t, want %t", body, first.GetNamesMedia(), c.media)
		case first.GetEngineMembers() != c.members:
			t.Errorf("%s: first.GetEngineMembers(): got %t, want %t", body, first.GetEngineMembers(), c.members)
		case second.GetFailedElsewhere() != c.failed:
			t.Errorf("%s: second.GetFailedElsewhere(): got %t, want %t", body, second.GetFailedElsewhere(), c.failed)
		}
	}
}

func TestARequestThatHasOneAttemptIsTriedOnce(t *testing.T) {
	f := start(t)
	var asked atomic.Int32
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		asked.Add(1)
		resp := candidates(providerA)
		resp.SingleAttempt = true
		return resp, nil
	})
	f.hub.set(failing(upstreamFailed()))
	resp := f.post(hello)
	wantError(t, resp, http.StatusBadGateway, "upstream_error")
	if got := resp.Header.Get("X-Svc-Attempts"); got != "1" || asked.Load() != 1 {
		t.Errorf("got %s attempts and %d selections, want 1 and 1", got, asked.Load())
	}
}
