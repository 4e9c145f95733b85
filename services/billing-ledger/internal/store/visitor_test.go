package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestOfAHundredRacingVisitsFiveAreTaken(t *testing.T) {
	e := setup(t, unlimited)
	replicas := e.replicas(t, 2, nil)
	v := limit.Visit{Address: limit.Address{1}, Limit: 5, Window: time.Hour}
	var mu sync.Mutex
	taken := map[int]int{}
	refused := 0
	var racers sync.WaitGroup
	for i := range 100 {
		racers.Go(func() {
			left, err := replicas[i%2].TakeVisit(t.Context(), v)
			mu.Lock()
			defer mu.Unlock()
			f, ok := fault.As(err)
			switch {
			case err == nil:
				taken[left.Remaining]++
			case ok && f.Reason == fault.RateLimitExceeded && f.RetryAfter > 59*time.Minute && f.RetryAfter <= time.Hour:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	racers.Wait()
	for remaining := range 5 {
		if taken[remaining] != 1 {
			t.Errorf("visits have %d left: got %d, want 1", remaining, taken[remaining])
		}
	}
	if refused != 95 {
		t.Errorf("refused: got %d, want 95", refused)
	}
	v.Address = limit.Address{2}
	if _, err := e.store.TakeVisit(t.Context(), v); err != nil {
		t.Errorf("another address: %v", err)
	}
}

// A flood of one address that has no room left does not queue for its row.
func TestAVisitWithoutRoomIsRefusedWithoutALock(t *testing.T) {
	e := setup(t, unlimited)
	v := limit.Visit{Address: limit.Address{1}, Limit: 1, Window: time.Hour}
	if _, err := e.store.TakeVisit(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM visitor FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = e.store.TakeVisit(ctx, v)
	switch f, ok := fault.As(err); {
	case !ok:
		t.Errorf("got the error %v, want a fault", err)
	case f.Reason != fault.RateLimitExceeded:
		t.Errorf("f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	case f.RetryAfter <= 59*time.Minute:
		t.Errorf("f.RetryAfter: got %v, want more than %v", f.RetryAfter, 59*time.Minute)
	}
}

func TestVisitorsAreForgottenWhenTheirVisitsCountNoMore(t *testing.T) {
	e := setup(t, unlimited)
	v := limit.Visit{Limit: 1, Window: time.Hour}
	for i := range byte(5) {
		v.Address = limit.Address{i}
		if _, err := e.store.TakeVisit(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	e.exec(t, `UPDATE visitor SET taken_at = ARRAY[now() - interval '61 minutes'], expires_at = now() - interval '1 minute'
		WHERE address > $1`, make([]byte, 32))
	if _, err := e.store.TakeVisit(t.Context(), v); err != nil {
		t.Errorf("after an hour: %v", err)
	}
	for _, want := range []int{2, 1, 0} {
		n, err := e.store.PruneVisitors(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("got %d forgotten, want %d", n, want)
		}
	}
	if left := scan[int](t, e, `SELECT count(*) FROM visitor`); left != 2 {
		t.Errorf("got %d left, want the one that came again and the one whose visit counts", left)
	}
}
