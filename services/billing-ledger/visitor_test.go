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
		if reset := time.Duration(resp.GetResetMs()) * time.Millisecond; resp.GetRemaining() != 4-i ||
			reset <= 59*time.Minute || reset > time.Hour {
			t.Errorf("visit %d: %v", i+1, resp)
		}
	}
	_, err := f.visits.TakeVisit(t.Context(), req)
	if got, ok := fault.As(err); !ok || got.Reason != fault.RateLimitExceeded || got.RetryAfter <= 59*time.Minute ||
		got.Meta["limit"] != "5" {
		t.Errorf("the sixth is answered %v", err)
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
		if got, ok := fault.As(err); !ok || got.Kind != fault.Invalid || got.Param != param {
			t.Errorf("%s: %v", param, err)
		}
	}
}
