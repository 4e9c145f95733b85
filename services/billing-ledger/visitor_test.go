package billingledger_test

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
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

func TestMalformedVisitsAreRefusedByName(t *testing.T) {
	f := start(t)
	for param, spoil := range map[string]func(*billingv1.TakeVisitRequest){
		"address":   func(r *billingv1.TakeVisitRequest) { r.Address = make([]byte, 16) },
		"limit":     func(r *billingv1.TakeVisitRequest) { r.Limit = -1 },
		"window_ms": func(r *billingv1.TakeVisitRequest) { r.WindowMs = 1 << 62 },
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
