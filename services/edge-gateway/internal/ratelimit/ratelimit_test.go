package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// ledger answers each read with the number of reads so far.
type ledger struct {
	billingv1.AdmissionServiceClient
	asked atomic.Int32
	takes time.Duration
	err   error
}

func (l *ledger) ReadRate(
	ctx context.Context, _ *billingv1.ReadRateRequest, _ ...grpc.CallOption,
) (*billingv1.ReadRateResponse, error) {
	n := l.asked.Add(1)
	if l.takes > 0 {
		select {
		case <-time.After(l.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if l.err != nil {
		return nil, l.err
	}
	return &billingv1.ReadRateResponse{Requests: &billingv1.RateLimit{Limit: 200, Remaining: n}}, nil
}

var bounds = Config{KeptFor: 100 * time.Millisecond, FailedFor: time.Second, Kept: 4, UnderWay: 2}

// within reads with the patience of a refused request.
func within(t *testing.T, r *Reader, keyID, category string) *billingv1.RateLimit {
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	return r.Read(ctx, keyID, category)
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's time

func TestAKeyIsAskedForOnceInAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &ledger{takes: 50 * time.Millisecond}
		r := New(peer, clock.System, bounds)
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if got := within(t, r, "key", "llm"); got.GetRemaining() != 1 {
					t.Errorf("got.GetRemaining(): got %d, want 1", got.GetRemaining())
				}
			})
		}
		callers.Wait()
		if got := within(t, r, "key", "llm"); got.GetRemaining() != 1 {
			t.Errorf("in the same moment: got %d, want 1", got.GetRemaining())
		}
		if got := within(t, r, "key", "audio"); got.GetRemaining() != 2 {
			t.Errorf("of another category: got %d, want 2", got.GetRemaining())
		}
		pass(bounds.KeptFor)
		if got := within(t, r, "key", "llm"); got.GetRemaining() != 3 {
			t.Errorf("a moment later: got %d, want 3", got.GetRemaining())
		}
	})
}

func TestAReadTakesNoLongerThanItMayAndIsNotTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &ledger{takes: time.Hour}
		r := New(peer, clock.System, bounds)
		began := time.Now()
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				if got := within(t, r, "key", "llm"); got != nil {
					t.Errorf(`within(t, r, "key", "llm"): got %v, want nil`, got)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("took: got %v, want %v", took, 250*time.Millisecond)
		}
		if within(t, r, "key", "llm"); time.Since(began) != 250*time.Millisecond {
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), 250*time.Millisecond)
		} else if peer.asked.Load() != 1 {
			t.Errorf("tried again at once: got %d, want 1", peer.asked.Load())
		}
		peer.takes, peer.err = 0, errors.New("refused")
		pass(bounds.FailedFor)
		if got := within(t, r, "key", "llm"); got != nil {
			t.Errorf(`within(t, r, "key", "llm"): got %v, want nil`, got)
		} else if peer.asked.Load() != 2 {
			t.Errorf("peer.asked.Load(): got %d, want 2", peer.asked.Load())
		}
		peer.err = nil
		pass(bounds.FailedFor)
		if got := within(t, r, "key", "llm"); got.GetRemaining() != 3 {
			t.Errorf("once it answers again: got %d, want 3", got.GetRemaining())
		}
	})
}

func TestWhatIsKeptAndUnderWayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &ledger{takes: 50 * time.Millisecond}
		r := New(peer, clock.System, bounds)
		var informed atomic.Int32
		var callers sync.WaitGroup
		for i := range 10 {
			callers.Go(func() {
				if within(t, r, fmt.Sprint("key-", i), "llm") != nil {
					informed.Add(1)
				}
			})
		}
		callers.Wait()
		if informed.Load() != 2 || peer.asked.Load() != 2 {
			t.Errorf("%d of 10 got a rate by %d reads, want 2", informed.Load(), peer.asked.Load())
		}
		peer.takes = 0
		for i := range 10 {
			within(t, r, fmt.Sprint("other-", i), "llm")
		}
		if len(r.kept) != bounds.Kept {
			t.Errorf("%d are kept after %d reads: len(r.kept): got %d, want %d", len(r.kept), peer.asked.Load(), len(r.kept),
				bounds.Kept)
		} else if peer.asked.Load() != 4 {
			t.Errorf("%d are kept after %d reads: peer.asked.Load(): got %d, want 4", len(r.kept), peer.asked.Load(),
				peer.asked.Load())
		}
		pass(bounds.KeptFor)
		if within(t, r, "late", "llm") == nil {
			t.Error(`kept once they are over: within(t, r, "late", "llm"): got nil, want a value`)
		} else if len(r.kept) != 1 {
			t.Errorf("kept once they are over: len(r.kept): got %d, want 1", len(r.kept))
		}
	})
}
