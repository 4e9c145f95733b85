package receipt

import (
	"context"
	"crypto/rand"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// table has the receipt of any request from a time on.
type table struct {
	from  time.Time
	reads int
}

func (s *table) Receipt(_ context.Context, request ids.RequestID, _ ids.AccountID) (*Receipt, error) {
	s.reads++
	if time.Now().Before(s.from) {
		return nil, nil
	}
	return &Receipt{Request: request}, nil
}

func TestAReceiptIsFoundOnceTheHoldOfItsYoungRequestIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		age, written time.Duration // of the request, and until its hold is written
		took         time.Duration
		found        bool
	}{
		"written before it is asked for": {age: 10 * time.Millisecond, found: true},
		"written soon":                   {10 * time.Millisecond, 120 * time.Millisecond, 150 * time.Millisecond, true},
		"never written":                  {10 * time.Millisecond, time.Hour, 500 * time.Millisecond, false},
		"unknown, and old":               {unwritten, time.Hour, 0, false},
		"unknown, and of the future":     {-unwritten - time.Millisecond, time.Hour, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			request, err := ids.NewRequest(now.Add(-c.age), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			s := &table{from: now.Add(c.written)}
			r, err := Get(t.Context(), s, clock.System, request, ids.AccountID{1})
			if took := time.Since(now); took != c.took {
				t.Errorf("%s: took %v, want %v", name, took, c.took)
			}
			switch {
			case c.found && (err != nil || r.Request != request):
				t.Errorf("%s: got %v and the error %v, want the receipt", name, r, err)
			case !c.found && !fault.Is(err, fault.RequestNotFound):
				t.Errorf("%s: got %v and the error %v, want %v", name, r, err, fault.RequestNotFound)
			}
			if s.reads > 11 {
				t.Errorf("%s: reads: got %d, want at most 11", name, s.reads)
			}
		})
	}
}

func TestACallerThatLeavesWaitsForNoReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, err := ids.NewRequest(time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		_, err = Get(ctx, &table{from: time.Now().Add(time.Hour)}, clock.System, request, ids.AccountID{1})
		if err == nil {
			t.Error("got no error, want that the caller left")
		}
		if fault.Is(err, fault.RequestNotFound) {
			t.Errorf("got the error %v, want that the caller left", err)
		}
	})
}
