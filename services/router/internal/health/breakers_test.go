package health

import (
	"testing"
	"time"

	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/tag"
)

func TestOpenBreakersAreCountedUntilTheyClose(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	r := New()
	for i := range breaker.Accounts {
		r.Get(Pair{"p", "m"}).Breaker.Failed(tag.Account(i+1), false, now)
	}
	for range breaker.Threshold {
		r.Get(Pair{"q", "m"}).Breaker.Failed(1, false, now)
	}
	if open, suspected := r.Breakers(now); open != 1 || suspected != 1 {
		t.Errorf("got %d open and %d suspected, want 1 and 1", open, suspected)
	}
	if open, suspected := r.Breakers(now.Add(breaker.RememberFor)); open != 1 || suspected != 0 {
		t.Errorf("got %d half open and %d suspected later, want 1 and 0", open, suspected)
	}
}
