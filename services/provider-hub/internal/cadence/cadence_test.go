package cadence

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestNextIsATickOrSoonAfterAWakeAndNeverAfterTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		wake time.Duration // 0: never
		end  time.Duration
		want time.Duration
		next bool
	}{
		"a tick":                    {0, time.Hour, 10 * time.Second, true},
		"soon after a wake":         {2 * time.Second, time.Hour, 2500 * time.Millisecond, true},
		"the end":                   {0, 4 * time.Second, 4 * time.Second, false},
		"the end soon after a wake": {2 * time.Second, 2100 * time.Millisecond, 2100 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.end)
				defer cancel()
				wake := make(chan struct{}, 1)
				if c.wake > 0 {
					time.AfterFunc(c.wake, func() { wake <- struct{}{} })
				}
				begin := time.Now()
				next := Next(ctx, time.NewTimer(10*time.Second).C, wake, 500*time.Millisecond)
				if after := time.Since(begin); next != c.next {
					t.Errorf("next: got %t, want %t", next, c.next)
				} else if after != c.want {
					t.Errorf("after: got %v, want %v", after, c.want)
				}
			})
		})
	}
}
