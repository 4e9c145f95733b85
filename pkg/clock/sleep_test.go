package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

func TestSleepWaitsForTheTimeOrTheEndOfTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		until, want time.Duration
		err         error
	}{
		"the time comes first":     {until: 3 * time.Minute, want: time.Minute},
		"the context ends first":   {until: time.Second, want: time.Second, err: context.DeadlineExceeded},
		"the context ended before": {until: 0, want: 0, err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.until)
				defer cancel()
				if err := clock.Sleep(ctx, time.Minute); !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				if got := time.Since(began); got != c.want {
					t.Errorf("got a wait of %v, want %v", got, c.want)
				}
			})
		})
	}
}
