package limit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestAKeyTakesAFewOfThePlacesAndItsWaitingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		semaphore := limit.NewFairSemaphore[string](3, 2, 4)
		proceed := make(chan struct{})
		var working, done, refused atomic.Int32
		call := func(key string) {
			switch err := semaphore.Do(t.Context(), key, func() error {
				working.Add(1)
				<-proceed
				working.Add(-1)
				return nil
			}); {
			case err == nil:
				done.Add(1)
			case fault.Is(err, fault.ServiceUnavailable):
				refused.Add(1)
			default:
				t.Error(err)
			}
		}
		for range 10 {
			go call("flood")
		}
		synctest.Wait()
		if w, r := working.Load(), refused.Load(); w != 2 {
			t.Errorf("at work, of ten calls of one key: got %d, want 2", w)
		} else if r != 4 {
			t.Errorf("refused.Load(): got %d, want 4", r)
		}
		go call("other")
		synctest.Wait()
		if w := working.Load(); w != 3 {
			t.Errorf("got %d work, want that of the other key too", w)
		}
		go call("third")
		synctest.Wait()
		if w := working.Load(); w != 3 {
			t.Errorf("at work, with three places: got %d, want 3", w)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := semaphore.Do(ctx, "fourth", func() error { return nil }); !fault.Is(err, fault.ServiceUnavailable) {
			t.Errorf("without a place: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
		}
		close(proceed)
		synctest.Wait()
		if d := done.Load(); d != 8 {
			t.Errorf("got %d calls done, want 8", d)
		}
		// Nothing is kept of keys whose calls have ended.
		for range 7 {
			go call("flood")
		}
		synctest.Wait()
		if d := done.Load(); d != 15 {
			t.Errorf("got %d calls done, want 15", d)
		}
	})
}
