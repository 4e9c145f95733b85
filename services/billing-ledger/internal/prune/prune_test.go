package prune_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/billing-ledger/internal/prune"
)

// rows are so many that are over.
func rows(left *int, calls *int) func(context.Context, int) (int, error) {
	return func(_ context.Context, limit int) (int, error) {
		*calls++
		n := min(*left, limit)
		*left -= n
		return n, nil
	}
}

func TestPruningTakesFullBatchesUpToItsBound(t *testing.T) {
	var left, calls int
	loop := prune.Loop{Batch: 10, Batches: 3, Log: slog.New(slog.DiscardHandler),
		Steps: []prune.Step{{Name: "x", Do: rows(&left, &calls)}}}
	for _, tc := range []struct{ had, left, calls int }{{0, 0, 1}, {9, 0, 1}, {10, 0, 2}, {25, 0, 3}, {30, 0, 3},
		{45, 15, 3}} {
		left, calls = tc.had, 0
		loop.Tick(t.Context())
		if left != tc.left || calls != tc.calls {
			t.Errorf("of %d rows %d are left after %d batches, want %d after %d", tc.had, left, calls, tc.left, tc.calls)
		}
	}
}

func TestAStepThatFailsIsToldAndStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		left, calls := 5, 0
		loop := prune.Loop{Interval: time.Minute, Batch: 10, Batches: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Steps: []prune.Step{
				{Name: "broken", Do: func(context.Context, int) (int, error) { return 0, errors.New("no") }},
				{Name: "sound", Do: rows(&left, &calls)},
			}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		loop.Run(ctx)
		if left != 0 || calls != 2 {
			t.Errorf("%d rows are left after %d looks in two intervals", left, calls)
		}
		if n := strings.Count(log.String(), "step=broken"); n != 2 {
			t.Errorf("the log tells of it %d times:\n%s", n, log.String())
		}
	})
}
