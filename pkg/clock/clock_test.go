package clock_test

import (
	"context"
	"errors"
	"slices"
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

func TestEveryYieldsAtEachIntervalUntilTheEndOfTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		until, works time.Duration
		stopAfter    int
		want         []time.Duration
	}{
		"until the context ends":   {until: 3*time.Second + 1, want: []time.Duration{1, 2, 3}},
		"until the caller leaves":  {until: time.Hour, stopAfter: 2, want: []time.Duration{1, 2}},
		"a slow caller misses one": {until: 5 * time.Second, works: 2500 * time.Millisecond, want: []time.Duration{1, 3}},
		"the context had ended":    {until: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.until)
				defer cancel()
				var got []time.Duration
				for range clock.Every(ctx, time.Second) {
					got = append(got, time.Since(began)/time.Second)
					if clock.Sleep(ctx, c.works) != nil || len(got) == c.stopAfter {
						break
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got seconds %d, want %d", got, c.want)
				}
			})
		})
	}
}
