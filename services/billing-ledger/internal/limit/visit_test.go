package limit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestNoWindowEverHasMoreVisitsThanItsLimit(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 57))
		v := limit.Visit{Limit: 1 + random.IntN(6), Window: time.Hour}
		var kept, all []time.Time
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(30 * time.Minute))))
			counting, left, err := v.Take(kept, now)
			if err != nil {
				f, ok := fault.As(err)
				switch {
				case !ok:
					t.Fatalf("got the error %v, want a fault", err)
				case f.Reason != fault.RateLimitExceeded:
					t.Fatalf("f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
				case f.RetryAfter <= 0 || f.RetryAfter > v.Window:
					t.Fatalf("f.RetryAfter: got %v, want more than 0 and at most %v", f.RetryAfter, v.Window)
				}
				// A moment before the time that it says there is no room, then there is.
				if _, _, err := v.Take(kept, now.Add(f.RetryAfter-1)); err == nil {
					t.Errorf("there is room before %s", f.RetryAfter)
				}
				if _, _, err := v.Take(kept, now.Add(f.RetryAfter)); err != nil {
					t.Errorf("there is no room after %s: %v", f.RetryAfter, err)
				}
				continue
			}
			kept, all = counting, append(all, now)
			if left.Remaining != v.Limit-len(kept) {
				t.Errorf("%+v are left with %d of %d made: left.Remaining: got %d, want %d", left, len(kept), v.Limit,
					left.Remaining, v.Limit-len(kept))
			} else if left.Reset <= 0 || left.Reset > v.Window {
				t.Errorf("%+v are left with %d of %d made: left.Reset: got %v, want more than 0 and at most %v", left, len(kept),
					v.Limit, left.Reset, v.Window)
			}
			if len(all) > v.Limit && all[len(all)-1].Sub(all[len(all)-1-v.Limit]) < v.Window {
				t.Fatalf("%d visits within %s", v.Limit+1, all[len(all)-1].Sub(all[len(all)-1-v.Limit]))
			}
		}
		if len(all) < 40 {
			t.Errorf("visits admitted: got %d, want at least 40", len(all))
		}
	}
}

func TestVisitsAreAskedForWithinBounds(t *testing.T) {
	for _, tc := range []struct {
		limit  int
		window time.Duration
		param  string
	}{
		{1, time.Second, ""}, {1000, 24 * time.Hour, ""},
		{0, time.Hour, "limit"}, {1001, time.Hour, "limit"}, {5, time.Second - 1, "window_ms"},
		{5, 24*time.Hour + 1, "window_ms"},
	} {
		err := limit.Visit{Limit: tc.limit, Window: tc.window}.Validate()
		f, _ := fault.As(err)
		switch {
		case tc.param == "" && err != nil:
			t.Errorf(`%d within %s: got the error %v, want none, where tc.param == ""`, tc.limit, tc.window, err)
		case tc.param != "" && f == nil:
			t.Errorf(`%d within %s: f: got no error, want one, where tc.param != ""`, tc.limit, tc.window)
		case tc.param != "" && f.Param != tc.param:
			t.Errorf(`%d within %s: f.Param: got %q, want %q, where tc.param != ""`, tc.limit, tc.window, f.Param, tc.param)
		}
	}
}
