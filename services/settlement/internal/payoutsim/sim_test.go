package payoutsim

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	histories = flag.Int("histories", 0, "how many histories are run; 0: 10,000, fewer with -short")
	first     = flag.Uint64("seed", 1, "the seed of the first history")
)

// sayEvery is after how many histories a long run says how far it is.
const sayEvery = 50_000

// run runs histories on all processors until one is wrong, if wanted so.
func run(t *testing.T, n int, from uint64, plant Plant, untilWrong bool) (total Result, wrong []error) {
	t.Helper()
	var next atomic.Uint64
	var mu sync.Mutex
	var wait sync.WaitGroup
	done := 0
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				stop := untilWrong && len(wrong) > 0 || len(wrong) >= 5
				mu.Unlock()
				if i >= uint64(n) || stop {
					return
				}
				r, err := Run(from+i, plant)
				mu.Lock()
				total.add(r)
				if err != nil {
					wrong = append(wrong, fmt.Errorf("seed %d: %w", from+i, err))
				}
				if done++; done%sayEvery == 0 {
					t.Logf("%d histories, and %d are wrong: %+v, %v", done, len(wrong), total, wrong)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return total, wrong
}

func (r *Result) add(o Result) {
	r.Payouts += o.Payouts
	r.Confirmed += o.Confirmed
	r.Failed += o.Failed
	r.Cancelled += o.Cancelled
	r.Crashes += o.Crashes
	r.Bumps += o.Bumps
	r.Reorgs += o.Reorgs
	r.TakenBack += o.TakenBack
	r.Denied += o.Denied
	r.Restored = r.Restored || o.Restored
	r.Halted = r.Halted || o.Halted
}

func TestEachPayoutIsReceivedOnceOrNeverAndTheBooksSayWhich(t *testing.T) {
	t.Parallel()
	n := *histories
	switch {
	case n == 0 && (testing.Short() || raced):
		n = 300
	case n == 0:
		n = 10_000
	}
	began := time.Now()
	total, wrong := run(t, n, *first, Nothing, false)
	for _, err := range wrong {
		t.Error(err)
	}
	t.Logf("%d histories in %s: %+v", n, time.Since(began).Round(time.Millisecond), total)
	if total.Denied == 0 && n >= 10_000 {
		t.Error("payouts that the chain denies: got none, want some")
	}
	for what, got := range map[string]int{"confirmed payouts": total.Confirmed, "failed payouts": total.Failed,
		"cancelled payouts": total.Cancelled, "crashes": total.Crashes, "raised fees": total.Bumps, "reorgs": total.Reorgs,
		"ended calls whose block was taken back": total.TakenBack} {
		if got == 0 {
			t.Errorf("%s: got none, want some", what)
		}
	}
	if !total.Restored {
		t.Error("got no history with a restore, want one")
	} else if !total.Halted {
		t.Error("got no history with a halt, want one")
	}
}

func TestEachPlantedFaultIsFound(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]Plant{"shared nonces": SharedNonces, "broadcast before the commit": BroadcastFirst,
		"failed by a time-out": TimeOut, "a new content": NewContent,
		"a final block that is gone is not reported": Unreported} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total, wrong := run(t, 500, 1, plant, true)
			if len(wrong) == 0 {
				t.Errorf("got nothing wrong in 500 histories (%+v), want something", total)
			} else {
				t.Log(wrong[0])
			}
		})
	}
}
