package standing

import (
	"testing"
	"time"

	"svc.internal/services/router/internal/breaker"
)

func TestOpenBreakersAreCountedUntilTheyClose(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	r := New()
	for range breaker.Threshold {
		r.Get(Pair{"p", "m"}).Breaker.Failed(now)
	}
	r.Get(Pair{"q", "m"}).Breaker.Failed(now)
	if n := r.OpenBreakers(now); n != 1 {
		t.Errorf("%d are open, want 1", n)
	}
	if n := r.OpenBreakers(now.Add(breaker.MaxRest)); n != 1 {
		t.Errorf("%d half open, want 1", n)
	}
}
