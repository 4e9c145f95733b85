package billingledger_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// Hostile test 57, of the ledger: the sixth visit of an hour is refused, and
// told when it may come again.
func TestTheSixthVisitIsRefusedWithTheTimeToWait(t *testing.T) {
	f := start(t)
	req := &billingv1.TakeVisitRequest{Address: make([]byte, 32), Limit: 5, WindowMs: time.Hour.Milliseconds()}
	for i := range int32(5) {
		resp, err := f.visits.TakeVisit(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if reset := time.Duration(resp.GetResetMs()) * time.Millisecond; resp.GetRemaining() != 4-i {
			t.Errorf("visit %d: resp.GetRemaining(): got %d, want %d", i+1, resp.GetRemaining(), 4-i)
		} else if reset <= 59*time.Minute || reset > time.Hour {
			t.Errorf("visit %d: reset: got %v, want more than %v and at most %v", i+1, reset, 59*time.Minute, time.Hour)
		}
	}
	_, err := f.visits.TakeVisit(t.Context(), req)
	switch got, ok := fault.As(err); {
	case !ok:
		t.Errorf("got the error %v, want a fault", err)
	case got.Reason != fault.RateLimitExceeded:
		t.Errorf("Reason: got %q, want %q", got.Reason, fault.RateLimitExceeded)
	case got.RetryAfter <= 59*time.Minute:
		t.Errorf("RetryAfter: got %v, want more than %v", got.RetryAfter, 59*time.Minute)
	case got.Meta["limit"] != "5":
		t.Errorf(`Meta["limit"]: got %q, want "5"`, got.Meta["limit"])
	}
}

// visitorIn opens a session of a network and returns the request for a visit in it.
func (f *fleet) visitorIn(t *testing.T, network byte, secret string) *billingv1.TakeVisitRequest {
	t.Helper()
	sum := sha256.Sum256([]byte(secret))
	address := append(make([]byte, 31), network)
	resp, err := f.visits.OpenVisitorSession(t.Context(), &billingv1.OpenVisitorSessionRequest{
		Address: address, SessionSha256: sum[:], Limit: 5, WindowMs: time.Hour.Milliseconds(),
	})
	if err != nil {
		t.Fatal(err)
	}
	switch left := time.Until(resp.GetExpiresAt().AsTime()); {
	case !resp.GetOpened():
		t.Error("opened: got false, want true")
	case left < 59*time.Minute || left > 61*time.Minute:
		t.Errorf("the session's time: got %v, want an hour", left)
	}
	return &billingv1.TakeVisitRequest{Address: address, Limit: 5, WindowMs: time.Hour.Milliseconds(),
		SessionSha256: sum[:]}
}

func TestAVisitInASessionSaysWhoPays(t *testing.T) {
	f := start(t)
	asked := f.visitorIn(t, 1, "secret")
	resp, err := f.visits.TakeVisit(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	c := consumer{account: resp.GetAccountId(), key: resp.GetKeyId()}
	if got, want := f.balance(t, c), "10.00 held 0.00"; got != want {
		t.Errorf("balance: got %q, want %q", got, want)
	}
	if got, want := len(resp.GetAccountTag()), 8; got != want {
		t.Errorf("len(resp.GetAccountTag()): got %d, want %d", got, want)
	}
	f.admit(t, order(t, c))
	report, err := billingledger.Verify(t.Context(), f.db)
	if err != nil {
		t.Fatal(err)
	}
	if report.Drift != 0 {
		t.Errorf("drift: got %d, want 0, in %+v", report.Drift, report)
	}
}

func TestOnlyTheOwnerOfALiveSessionTakesAVisit(t *testing.T) {
	f := start(t)
	asked := f.visitorIn(t, 1, "secret")
	guess := sha256.Sum256([]byte("a guess"))
	for what, req := range map[string]*billingv1.TakeVisitRequest{
		"a guess": {Address: asked.GetAddress(), SessionSha256: guess[:]},
		"another network's session": {Address: f.visitorIn(t, 2, "elsewhere").GetAddress(),
			SessionSha256: asked.GetSessionSha256()},
	} {
		req.Limit, req.WindowMs = asked.GetLimit(), asked.GetWindowMs()
		if _, err := f.visits.TakeVisit(t.Context(), req); !fault.Is(err, fault.InvalidSession) {
			t.Errorf("%s: got the error %v, want the reason %v", what, err, fault.InvalidSession)
		}
	}
	resp, err := f.visits.TakeVisit(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetRemaining(); got != 4 {
		t.Errorf("remaining, after the refusals: got %d, want 4", got)
	}
	opened, err := f.visits.OpenVisitorSession(t.Context(), &billingv1.OpenVisitorSessionRequest{
		Address: asked.GetAddress(), SessionSha256: guess[:], HeldSessionSha256: asked.GetSessionSha256(), Limit: 5,
		WindowMs: time.Hour.Milliseconds(),
	})
	switch {
	case err != nil:
		t.Fatal(err)
	case opened.GetOpened():
		t.Error("opened, with a live session: got true, want false")
	case opened.GetRemaining() != 4:
		t.Errorf("remaining: got %d, want 4", opened.GetRemaining())
	case opened.GetResetMs() <= 59*60_000:
		t.Errorf("reset: got %d ms, want most of an hour", opened.GetResetMs())
	}
}

func TestTheSeventeenthSessionOfANetworkIsToldToWait(t *testing.T) {
	f := start(t)
	for i := range 16 {
		f.visitorIn(t, 1, fmt.Sprint(i))
	}
	sum := sha256.Sum256([]byte("one more"))
	_, err := f.visits.OpenVisitorSession(t.Context(), &billingv1.OpenVisitorSessionRequest{
		Address: append(make([]byte, 31), 1), SessionSha256: sum[:], Limit: 5, WindowMs: time.Hour.Milliseconds(),
	})
	switch got, ok := fault.As(err); {
	case !ok:
		t.Errorf("got the error %v, want a fault", err)
	case got.Reason != fault.RateLimitExceeded:
		t.Errorf("Reason: got %q, want %q", got.Reason, fault.RateLimitExceeded)
	case got.RetryAfter <= 59*time.Minute:
		t.Errorf("RetryAfter: got %v, want more than %v", got.RetryAfter, 59*time.Minute)
	}
}

func TestMalformedVisitsAreRefusedByName(t *testing.T) {
	f := start(t)
	for param, spoil := range map[string]func(*billingv1.TakeVisitRequest){
		"address":        func(r *billingv1.TakeVisitRequest) { r.Address = make([]byte, 16) },
		"limit":          func(r *billingv1.TakeVisitRequest) { r.Limit = -1 },
		"window_ms":      func(r *billingv1.TakeVisitRequest) { r.WindowMs = 1 << 62 },
		"session_sha256": func(r *billingv1.TakeVisitRequest) { r.SessionSha256 = make([]byte, 31) },
	} {
		req := &billingv1.TakeVisitRequest{Address: make([]byte, 32), Limit: 5, WindowMs: 1000}
		spoil(req)
		_, err := f.visits.TakeVisit(t.Context(), req)
		switch got, ok := fault.As(err); {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", param, err)
		case got.Kind != fault.Invalid:
			t.Errorf("%s: Kind: got %d, want %d", param, got.Kind, fault.Invalid)
		case got.Param != param:
			t.Errorf("%s: Param: got %q, want %q", param, got.Param, param)
		}
	}
}
