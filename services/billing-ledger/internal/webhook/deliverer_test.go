package webhook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/ids"
)

// queue has endless turns of a few accounts.
type queue struct {
	mu    sync.Mutex
	turns map[ids.AccountID]int // that are due
	order []ids.AccountID
	ended map[ids.AccountID]int
	// failed are the accounts whose last try failed.
	failed map[ids.AccountID]bool
	next   Next
	err    error
}

func (*queue) FanOut(context.Context, int) (int, bool, error) { return 0, false, nil }

func (q *queue) TakeTurns(_ context.Context, room Room) ([]Turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var turns []Turn
	for _, account := range q.order {
		failing := q.failed[account]
		if slices.Contains(room.Full, account) || q.turns[account] == 0 || len(turns) == room.All ||
			failing && room.Failing == 0 {
			continue
		}
		if failing {
			room.Failing--
		}
		q.turns[account]--
		turns = append(turns, Turn{Account: account, Failing: failing})
	}
	return turns, q.err
}

func (q *queue) EndTurn(_ context.Context, t Turn, r Result) (Next, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed[t.Account] = !r.Success()
	q.ended[t.Account]++
	return q.next, nil
}

func newQueue(turns int, accounts ...ids.AccountID) *queue {
	q := &queue{turns: map[ids.AccountID]int{}, order: accounts, ended: map[ids.AccountID]int{},
		failed: map[ids.AccountID]bool{}}
	for _, a := range accounts {
		q.turns[a] = turns
	}
	return q
}

func newTestDeliverer(q Queue, send func(context.Context, Turn) (Result, error)) *Deliverer {
	d := NewDeliverer()
	d.Queue, d.Send, d.Log = q, send, slog.New(slog.DiscardHandler)
	d.Observe, d.Dropped = func(Result) {}, func(int) {}
	return d
}

// Hostile: an account whose receivers answer nothing takes two places, and no more.
func TestASlowAccountHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow, quick := ids.AccountID{1}, ids.AccountID{2}
		q := newQueue(100, slow, quick)
		var mu sync.Mutex
		under, most := 0, 0
		d := newTestDeliverer(q, func(ctx context.Context, turn Turn) (Result, error) {
			if turn.Account == quick {
				return Result{Status: 200}, nil
			}
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			time.Sleep(SendTimeout) //nolint:forbidigo // of a synctest bubble
			mu.Lock()
			under--
			mu.Unlock()
			return Result{Problem: Timeout}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { d.Run(ctx); close(done) }()
		time.Sleep(SendTimeout / 2) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		q.mu.Lock()
		if got := q.ended[quick]; got != 100 {
			t.Errorf("messages of the quick account: got %d, want 100", got)
		}
		q.mu.Unlock()
		cancel()
		<-done
		if most != MaxOfAccount {
			t.Errorf("messages of the slow account at once: got %d, want %d", most, MaxOfAccount)
		}
		if under != 0 {
			t.Errorf("messages under way when Run has ended: got %d, want 0", under)
		}
	})
}

// Hostile: more accounts than a process has places have receivers that never answer.
func TestReceiversThatNeverAnswerLeaveRoomForThoseThatDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quick := ids.AccountID{2}
		var accounts []ids.AccountID
		for i := range MaxSends * 2 {
			accounts = append(accounts, ids.AccountID{byte(i), 1})
		}
		q := newQueue(1000, append(accounts, quick)...)
		q.turns[quick] = 0
		for _, slow := range accounts {
			q.failed[slow] = true
		}
		d := newTestDeliverer(q, func(_ context.Context, turn Turn) (Result, error) {
			if turn.Account == quick {
				return Result{Status: 200}, nil
			}
			time.Sleep(SendTimeout) //nolint:forbidigo // of a synctest bubble
			return Result{Problem: Timeout}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { d.Run(ctx); close(done) }()
		synctest.Wait()
		for range 100 {
			q.mu.Lock()
			q.turns[quick]++
			before := q.ended[quick]
			q.mu.Unlock()
			d.Wake()
			synctest.Wait()
			q.mu.Lock()
			got := q.ended[quick]
			q.mu.Unlock()
			if got != before+1 {
				t.Errorf("messages of the quick account at once: got %d, want %d", got, before+1)
			}
		}
		if got := MaxSends - d.room().All; got != MaxToFailing {
			t.Errorf("places of those that never answer: got %d, want %d", got, MaxToFailing)
		}
		cancel()
		<-done
	})
}

func TestAProcessHasItsMessagesUnderWayAndNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var accounts []ids.AccountID
		for i := range MaxSends * 2 {
			accounts = append(accounts, ids.AccountID{byte(i), 1})
		}
		q := newQueue(1, accounts...)
		var mu sync.Mutex
		under, most := 0, 0
		d := newTestDeliverer(q, func(context.Context, Turn) (Result, error) {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			time.Sleep(time.Second) //nolint:forbidigo // of a synctest bubble
			mu.Lock()
			under--
			mu.Unlock()
			return Result{Status: 200}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		d.Run(ctx)
		if most != MaxSends {
			t.Errorf("at once: got %d, want %d", most, MaxSends)
		}
		if len(q.ended) != len(accounts) {
			t.Errorf("accounts that were served: got %d, want %d", len(q.ended), len(accounts))
		}
	})
}

func TestTheLogNamesTheEndpointAndNeitherItsAddressNorItsSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, ids.AccountID{1})
		q.next = Next{Note: Gone}
		var log bytes.Buffer
		d := newTestDeliverer(q, func(context.Context, Turn) (Result, error) { return Result{}, errors.New("sealed") })
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
		var under sync.WaitGroup
		if _, err := d.look(t.Context(), &under); err != nil {
			t.Fatal(err)
		}
		under.Wait()
		if !strings.Contains(log.String(), "webhook_id=") {
			t.Errorf("log: got %q, want the webhook's id", log.String())
		}
		for _, secret := range []string{SecretPrefix, "http", "/hook"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("log: got %q, want nothing of %q", log.String(), secret)
			}
		}
	})
}

func TestWhatFollowsFromATryIsDecidedByTheTable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	long := now.Add(-MaxFailing)
	for name, tc := range map[string]struct {
		result   Result
		attempt  int
		first    time.Time
		failures int
		since    time.Time
		want     Next
	}{
		"a success": {Result{Status: 299}, 5, long, 7, long, Next{State: Delivered}},
		"a first failure": {Result{Status: 500, Problem: BadStatus}, 1, now, 0, time.Time{}, Next{State: Waiting,
			Due: now.Add(5 * time.Minute), Failures: 1, FailingSince: now, Pause: now.Add(10 * time.Second)}},
		"a redirect": {Result{Status: 301, Problem: BadStatus}, 2, now, 1, now, Next{State: Waiting,
			Due: now.Add(30 * time.Minute), Failures: 2, FailingSince: now, Pause: now.Add(20 * time.Second)}},
		"a late one": {Result{Problem: Timeout}, 3, long, 1, now, Next{State: Waiting, Due: now.Add(time.Minute),
			Failures: 2, FailingSince: now, Pause: now.Add(20 * time.Second)}},
		"the last": {Result{Problem: Timeout}, 5, long, 4, now, Next{State: Failed, Failures: 5, FailingSince: now,
			Pause: now.Add(160 * time.Second)}},
		"gone": {Result{Status: 410, Problem: BadStatus}, 1, now, 0, time.Time{}, Next{State: Failed, Failures: 1,
			FailingSince: now, Pause: now.Add(10 * time.Second), Note: Gone}},
		"for days": {Result{Problem: Connection}, 1, now, 9, long, Next{State: Waiting, Due: now.Add(5 * time.Minute),
			Failures: 10, FailingSince: long, Pause: now.Add(5 * time.Minute), Note: Failing}},
	} {
		if got := Follow(tc.result, tc.attempt, tc.first, now, tc.failures, tc.since); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}
