package claims

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/ids"
)

func request(n byte) (id ids.RequestID) {
	id[15] = n
	return id
}

func TestAClaimReachesWhoAskedBeforeAndWhoAsksAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var owned []ids.RequestID
		box := New(func(id ids.RequestID) { owned = append(owned, id) })
		want := Claim{Valid: true, Prompt: 7, Output: 9}
		before := make(chan Claim, 1)
		go func() {
			c, err := box.Wait(t.Context(), request(1))
			if err != nil {
				t.Errorf("got the error %v, want none", err)
			}
			before <- c
		}()
		synctest.Wait()
		box.Put(request(1), want)
		box.Put(request(1), Claim{})
		if got := <-before; got != want {
			t.Errorf("asked before: got %v, want %v", got, want)
		}
		got, err := box.Wait(t.Context(), request(1))
		if err != nil {
			t.Fatalf("asked after: got the error %v, want none", err)
		}
		if got != want {
			t.Errorf("asked after: got %v, want %v", got, want)
		}
		if len(owned) != 2 {
			t.Errorf("own requests told of: got %d, want 2", len(owned))
		}
	})
}

func TestAClaimThatNeverComesIsWaitedForUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := New(func(ids.RequestID) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := box.Wait(ctx, request(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got the error %v, want %v", err, context.DeadlineExceeded)
		}
		if got := len(box.waiting); got != 0 {
			t.Errorf("requests that are waited for: got %d, want 0", got)
		}
	})
}

func TestTheOldestClaimLeavesFirst(t *testing.T) {
	t.Parallel()
	box := New(func(ids.RequestID) {})
	box.limit = 3
	for n := range byte(5) {
		box.Put(request(n), Claim{Prompt: int64(n)})
	}
	if got := len(box.kept); got != 3 {
		t.Errorf("claims kept: got %d, want 3", got)
	}
	for n, want := range map[byte]bool{0: false, 1: false, 2: true, 3: true, 4: true} {
		if _, got := box.kept[request(n)]; got != want {
			t.Errorf("claim %d is kept: got %t, want %t", n, got, want)
		}
	}
}

func TestTheNumberOfThoseThatWaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		box := New(func(ids.RequestID) {})
		ctx, cancel := context.WithCancel(t.Context())
		for n := range maxWaiting {
			go func() { _, _ = box.Wait(ctx, ids.RequestID{byte(n), byte(n >> 8)}) }()
		}
		synctest.Wait()
		if _, err := box.Wait(ctx, ids.RequestID{0, 0, 1}); !errors.Is(err, ErrTooMany) {
			t.Errorf("got the error %v, want %v", err, ErrTooMany)
		}
		cancel()
		synctest.Wait()
	})
}
