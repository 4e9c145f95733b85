package limit_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestNoMoreWorkAtATimeThanThereArePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		semaphore := limit.NewSemaphore(2)
		proceed := make(chan struct{})
		var working, done atomic.Int32
		for range 5 {
			go func() {
				if err := semaphore.Do(t.Context(), func() error {
					working.Add(1)
					<-proceed
					working.Add(-1)
					return nil
				}); err != nil {
					t.Error(err)
				}
				done.Add(1)
			}()
		}
		synctest.Wait()
		if n := working.Load(); n != 2 {
			t.Errorf("at work at once: got %d, want 2", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := semaphore.Do(ctx, func() error {
			t.Error("it ran without a place")
			return nil
		})
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("without a place: got the error %v, want a fault", err)
		case f.Kind != fault.Unavailable:
			t.Errorf("without a place: f.Kind: got %d, want %d", f.Kind, fault.Unavailable)
		case f.RetryAfter <= 0:
			t.Errorf("without a place: f.RetryAfter: got %v, want more than 0", f.RetryAfter)
		}
		close(proceed)
		synctest.Wait()
		if n := done.Load(); n != 5 {
			t.Errorf("of 5 done: got %d, want 5", n)
		}
	})
}

func TestAPlaceIsGivenBackWhateverComesOfTheWork(t *testing.T) {
	semaphore := limit.NewSemaphore(1)
	broken := errors.New("broken")
	for range 3 {
		if err := semaphore.Do(t.Context(), func() error { return broken }); !errors.Is(err, broken) {
			t.Fatalf("got the error %v, want %v", err, broken)
		}
	}
}
