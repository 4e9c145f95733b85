package payout

import (
	"testing"
	"time"
)

func TestAConversionWaitsTwiceAsLongEachTimeAndAnHourAtMost(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{
		0: time.Minute, 1: 2 * time.Minute, 4: 16 * time.Minute, 5: 32 * time.Minute, 6: time.Hour, 7: time.Hour,
		1 << 30: time.Hour,
	} {
		if got := pause(tries); got != want {
			t.Errorf("after %d tries: got %v, want %v", tries, got, want)
		}
	}
}
