package quota

import (
	"net/netip"
	"testing"
	"time"

	"svc.internal/pkg/fault"
)

func TestQuotaIsExactWithinAnySpan(t *testing.T) {
	q := New("calls", Rate{5, time.Hour}, 10)
	from := netip.MustParseAddr("2001:db8::1")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var taken []time.Time
	for minute := range 600 {
		at := now.Add(time.Duration(minute) * time.Minute)
		err := q.Take(from, at)
		if err == nil {
			taken = append(taken, at)
			continue
		}
		f, ok := fault.As(err)
		switch {
		case !ok:
			t.Fatalf("minute %d: got the error %v, want a fault", minute, err)
		case f.Reason != fault.RateLimitExceeded:
			t.Fatalf("minute %d: f.Reason: got %q, want %q", minute, f.Reason, fault.RateLimitExceeded)
		case f.RetryAfter <= 0 || f.RetryAfter > time.Hour:
			t.Fatalf("minute %d: f.RetryAfter: got %v, want more than 0 and at most %v", minute, f.RetryAfter, time.Hour)
		}
		if free := at.Add(f.RetryAfter); free.Sub(taken[len(taken)-5]) != time.Hour {
			t.Fatalf("minute %d: free after %v: got %v, want %v", minute, f.RetryAfter, free.Sub(taken[len(taken)-5]), time.Hour)
		}
	}
	for i := range taken[:len(taken)-5] {
		if span := taken[i+5].Sub(taken[i]); span < time.Hour {
			t.Errorf("six calls within: got %v, want at least %v", span, time.Hour)
		}
	}
	if len(taken) != 50 {
		t.Errorf("calls in ten hours: got %d, want 50", len(taken))
	}
}

func TestAQuotaIsANetworks(t *testing.T) {
	q := New("calls", Rate{1, time.Hour}, 2)
	now := time.Now()
	for address, free := range map[string]bool{"192.0.2.1": true, "192.0.2.2": true} {
		if err := q.Take(netip.MustParseAddr(address), now); (err == nil) != free {
			t.Errorf("%s: err == nil: got %t, want %t", address, err == nil, free)
		}
	}
	q = New("calls", Rate{1, time.Hour}, 2)
	if err := q.Take(netip.MustParseAddr("2001:db8::1"), now); err != nil {
		t.Fatal(err)
	}
	if err := q.Take(netip.MustParseAddr("2001:db8::ffff"), now); err == nil {
		t.Error("the same /64 had another call")
	}
	for n := range 100 {
		_ = q.Take(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), now)
	}
	if got, want := q.calls.Len(), 2; got != want {
		t.Errorf("got %d networks, want %d", got, want)
	}
}
