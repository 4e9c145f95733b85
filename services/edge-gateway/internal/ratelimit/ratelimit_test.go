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
					t.Errorf("got %v", got)
				}
			})
		}
		callers.Wait()
		if got := within(t, r, "key", "llm"); got.GetRemaining() != 1 {
			t.Errorf("in the same moment got %v", got)
		}
		if got := within(t, r, "key", "audio"); got.GetRemaining() != 2 {
			t.Errorf("of another category got %v", got)
		}
		pass(bounds.KeptFor)
		if got := within(t, r, "key", "llm"); got.GetRemaining() != 3 {
			t.Errorf("a moment later got %v", got)
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
					t.Errorf("got %v", got)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if within(t, r, "key", "llm"); time.Since(began) != 250*time.Millisecond || peer.asked.Load() != 1 {
			t.Errorf("tried again at once, %d reads in %v", peer.asked.Load(), time.Since(began))
		}
		peer.takes, peer.err = 0, errors.New("refused")
		pass(bounds.FailedFor)
		if got := within(t, r, "key", "llm"); got != nil || peer.asked.Load() != 2 {
			t.Errorf("got %v after %d reads", got, peer.asked.Load())
		}
		peer.err = nil
		pass(bounds.FailedFor)
		if got := within(t, r, "key", "llm"); got.GetRemaining() != 3 {
			t.Errorf("once it answers again got %v", got)
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
		if len(r.kept) != bounds.Kept || peer.asked.Load() != 4 {
			t.Errorf("%d are kept after %d reads", len(r.kept), peer.asked.Load())
		}
		pass(bounds.KeptFor)
		if within(t, r, "late", "llm") == nil || len(r.kept) != 1 {
			t.Errorf("%d are kept once they are over", len(r.kept))
		}
	})
}
