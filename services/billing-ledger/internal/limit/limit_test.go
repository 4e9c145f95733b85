package limit

import (
	"testing"

	"svc.internal/pkg/fault"
)

func TestLimitsBelowUnlimitedAreRefused(t *testing.T) {
	for _, n := range []int32{Unlimited, 0, 1, 1 << 30} {
		if err := (Limits{RequestsPerMinute: n, ConcurrentRequests: n}).Validate(); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	for _, l := range []Limits{{RequestsPerMinute: -2}, {ConcurrentRequests: -2}} {
		if err := l.Validate(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%+v: got the error %v, want the reason %v", l, err, fault.InvalidValue)
		}
	}
}

func TestDefaultsHaveNoZero(t *testing.T) {
	whole := Defaults{1, 2, 3, 4, 5, 6, Unlimited}
	if !whole.Valid() {
		t.Error("refused")
	}
	for _, limit := range []*int32{&whole.EmbeddingPerMinute, &whole.ImagePerMinute, &whole.AudioPerMinute,
		&whole.Concurrent} {
		before := *limit
		if *limit = 0; whole.Valid() {
			t.Error("a limit of zero is accepted")
		}
		*limit = before
	}
}
