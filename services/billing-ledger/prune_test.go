package billingledger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
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
	p := pruner{batch: 10, batches: 3, log: slog.New(slog.DiscardHandler),
		steps: []pruneStep{{name: "x", do: rows(&left, &calls)}}}
	for _, tc := range []struct{ had, left, calls int }{{0, 0, 1}, {9, 0, 1}, {10, 0, 2}, {25, 0, 3}, {30, 0, 3},
		{45, 15, 3}} {
		left, calls = tc.had, 0
		p.tick(t.Context())
		if left != tc.left {
			t.Errorf("of %d rows: left: got %d, want %d", tc.had, left, tc.left)
		} else if calls != tc.calls {
			t.Errorf("of %d rows: calls: got %d, want %d", tc.had, calls, tc.calls)
		}
	}
}

func TestAStepThatFailsIsToldAndStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		left, calls := 5, 0
		p := pruner{interval: time.Minute, batch: 10, batches: 1, log: slog.New(slog.NewTextHandler(&log, nil)),
			steps: []pruneStep{
				{name: "broken", do: func(context.Context, int) (int, error) { return 0, errors.New("no") }},
				{name: "sound", do: rows(&left, &calls)},
			}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		p.run(ctx)
		if left != 0 {
			t.Errorf("%d rows are left after %d looks in two intervals: left: got %d, want 0", left, calls, left)
		} else if calls != 2 {
			t.Errorf("%d rows are left after %d looks in two intervals: calls: got %d, want 2", left, calls, calls)
		}
		if n := strings.Count(log.String(), "step=broken"); n != 2 {
			t.Errorf("the log tells of it %d times:\n%s", n, log.String())
		}
	})
}

// A step rests for itself, and not behind a try that failed.
func TestAStepRestsUntilItIsDue(t *testing.T) {
	calls := map[string]int{}
	step := func(name string, fails bool) pruneStep {
		looked := false
		still := clock.NewStill(func(context.Context) bool { was := looked; looked = true; return was },
			func() { looked = false })
		return pruneStep{name: name, still: still, do: func(context.Context, int) (int, error) {
			if calls[name]++; fails {
				return 0, errors.New("no")
			}
			return 0, nil
		}}
	}
	p := pruner{batch: 10, batches: 1, log: slog.New(slog.DiscardHandler),
		steps: []pruneStep{step("broken", true), step("sound", false)}}
	for range 3 {
		p.tick(t.Context())
	}
	if calls["broken"] != 3 {
		t.Errorf("tries of a step that fails: got %d, want 3", calls["broken"])
	}
	if calls["sound"] != 1 {
		t.Errorf("tries of a step that is not due again: got %d, want 1", calls["sound"])
	}
}
