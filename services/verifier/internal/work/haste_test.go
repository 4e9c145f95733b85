package work

import (
	"testing"
	"time"
)

func TestHasteDividesPausesWithinABound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		haste     Haste
		own, want time.Duration
	}{
		{0, time.Minute, time.Minute},
		{1, time.Minute, time.Minute},
		{100, time.Minute, 600 * time.Millisecond},
		{100, time.Second, shortest},
		{100, shortest / 2, shortest / 2},
	} {
		if got := c.haste.Of(c.own); got != c.want {
			t.Errorf("a pause of %v at a haste of %d: got %v, want %v", c.own, c.haste, got, c.want)
		}
	}
}
