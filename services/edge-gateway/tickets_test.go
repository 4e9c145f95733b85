package edgegateway

import (
	"net/http"
	"testing"

	routerv1 "svc.internal/proto/svc/router/v1"
)

func TestTheTicketGoesToEachHubAndWithTheReport(t *testing.T) {
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		return candidates(providerA, providerB), nil
	})
	f.hub.byAttempt(failing(upstreamFailed()), wholeAnswer)
	resp := f.post(hello)
	if read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("status: got %d, want 200", resp.StatusCode)
	}
	id := resp.Header.Get("X-Svc-Request-ID")
	for attempt := range 2 {
		open := awaited(t, f.hub.opens)
		if got, want := string(open.GetTicket()), "ticket of "+id; got != want {
			t.Errorf("attempt %d: ticket: got %q, want %q", attempt+1, got, want)
		}
		if got, want := string(open.GetLedgerMac()), "MAC of "+id; got != want {
			t.Errorf("attempt %d: MAC: got %q, want %q", attempt+1, got, want)
		}
	}
	if got, want := string(f.report().GetTicket()), "ticket of "+id; got != want {
		t.Errorf("the report: ticket: got %q, want %q", got, want)
	}
}

// What a repeat gets whose claim has lapsed is decided by the holds that are written.
func TestARequestUnderAClaimAsksForAHoldThatIsWritten(t *testing.T) {
	f := start(t)
	for name, c := range map[string]struct {
		header []string
		want   bool
	}{"without a key": {nil, true}, "with a key": {[]string{keyed, "one"}, false}} {
		read(t, f.post(hello, c.header...))
		if got := awaited(t, f.billing.admits).GetCarriesTicket(); got != c.want {
			t.Errorf("%s: carries a ticket: got %t, want %t", name, got, c.want)
		}
	}
}
