package inference

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// lessor takes renewals, or fails as the test says.
type lessor struct {
	billingv1.AdmissionServiceClient
	mu    sync.Mutex
	errs  []error // one for each call to come; then none
	gone  []string
	slow  time.Duration // of each call
	calls []*billingv1.RenewRequest
	at    []time.Time
}

func (l *lessor) Renew(ctx context.Context, req *billingv1.RenewRequest,
	_ ...grpc.CallOption) (*billingv1.RenewResponse, error) {
	select {
	case <-time.After(l.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Now())
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	l.calls = append(l.calls, req)
	return &billingv1.RenewResponse{LapsedRequestIds: l.gone}, nil
}

func leases(l *lessor, maxRequests int) *Leases {
	return NewLeases(l, clock.System, slog.New(slog.DiscardHandler), LeaseConfig{
		Interval: 15 * time.Second, Retry: 2 * time.Second, CallTimeout: time.Second, MaxRequests: maxRequests})
}

// during runs the renewals while the bubble's time passes.
func during(l *Leases, d time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	l.Run(ctx)
}

func TestTheReportedLeaseReplacesTheSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{}
		l := leases(peer, 100)
		l.Begin("long", nil, time.Now(), 0)
		time.AfterFunc(time.Second, func() {
			l.SetLeaseDuration(0)
			l.SetLeaseDuration(8 * time.Second)
		})
		during(l, 5*time.Second)
		if len(peer.calls) != 2 {
			t.Errorf("renewals in five seconds, of a lease of eight that is reported after the first: got %d, want 2",
				len(peer.calls))
		}
	})
}

func TestShortRequestsCostNoCallAndLongOnesAreRenewedWithTheirCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{}
		l := leases(peer, 100)
		l.End(l.Begin("short", nil, time.Now(), 0))
		long := l.Begin("long", nil, time.Now(), 0)
		time.AfterFunc(10*time.Second, func() { l.Begin("young", nil, time.Now(), 0) })
		time.AfterFunc(20*time.Second, func() {
			long.Committed(2, "hub-1", "p1")
			long.Relayed(7, 700)
		})
		during(l, 31*time.Second)
		if len(peer.calls) != 2 {
			t.Fatalf("calls: got %d, want 2", len(peer.calls))
		}
		switch got := peer.calls[0].GetRequests(); {
		case len(got) != 1:
			t.Errorf("first: len(got): got %d, want 1, in %v", len(got), got)
		case got[0].GetRequestId() != "long":
			t.Errorf(`first: got[0].GetRequestId(): got %q, want "long"`, got[0].GetRequestId())
		case got[0].GetCommittedAttempt() != 0:
			t.Errorf("first: got[0].GetCommittedAttempt(): got %d, want 0", got[0].GetCommittedAttempt())
		}
		for _, got := range peer.calls[1].GetRequests() {
			switch {
			case got.GetRequestId() == "long" && got.GetCommittedAttempt() != 2:
				t.Errorf(`then: got.GetCommittedAttempt(): got %d, want 2, where got.GetRequestId() == "long"`,
					got.GetCommittedAttempt())
			case got.GetRequestId() == "long" && got.GetHubId() != "hub-1":
				t.Errorf(`then: got.GetHubId(): got %q, want "hub-1", where got.GetRequestId() == "long"`, got.GetHubId())
			case got.GetRequestId() == "long" && got.GetProviderId() != "p1":
				t.Errorf(`then: got.GetProviderId(): got %q, want "p1", where got.GetRequestId() == "long"`, got.GetProviderId())
			case got.GetRequestId() == "long" && got.GetRelayedTokens() != 7:
				t.Errorf(`then: got.GetRelayedTokens(): got %d, want 7, where got.GetRequestId() == "long"`, got.GetRelayedTokens())
			case got.GetRequestId() == "long" && got.GetRelayedBytes() != 700:
				t.Errorf(`then: got.GetRelayedBytes(): got %d, want 700, where got.GetRequestId() == "long"`, got.GetRelayedBytes())
			}
		}
		if len(peer.calls[1].GetRequests()) != 2 {
			t.Errorf("then: got %d, want 2, in %v", len(peer.calls[1].GetRequests()), peer.calls[1])
		}
	})
}

func TestRenewalsGoInBatchesOfBoundedSizeAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{}
		l := leases(peer, 2500)
		for i := range 2600 {
			l.Begin(strconv.Itoa(i), nil, time.Now(), 0)
		}
		during(l, 16*time.Second)
		switch {
		case len(peer.calls) != 3:
			t.Errorf("len(peer.calls): got %d, want 3", len(peer.calls))
		case len(peer.calls[0].GetRequests()) != 1000:
			t.Errorf("len(peer.calls[0].GetRequests()): got %d, want 1000", len(peer.calls[0].GetRequests()))
		case len(peer.calls[2].GetRequests()) != 500:
			t.Errorf("len(peer.calls[2].GetRequests()): got %d, want 500", len(peer.calls[2].GetRequests()))
		}
	})
}

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{errs: []error{errors.New("down"), errors.New("down")}}
		l := leases(peer, 100)
		begun := time.Now()
		l.Begin("long", nil, begun, 0)
		during(l, 40*time.Second)
		want := []time.Duration{15 * time.Second, 17 * time.Second, 19 * time.Second, 34 * time.Second}
		if len(peer.at) != len(want) {
			t.Fatalf("got %d calls, want %d", len(peer.at), len(want))
		}
		for i, at := range peer.at {
			if at.Sub(begun) != want[i] {
				t.Errorf("call %d: got %v, want %v", i, at.Sub(begun), want[i])
			}
		}
	})
}

func TestCountsAreReadWhileTheyAreWritten(t *testing.T) {
	l := leases(&lessor{}, 100)
	r := l.Begin("long", nil, time.Now().Add(-time.Hour), 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Committed(1, "hub", "provider")
		for n := range int64(10_000) {
			r.Relayed(n, n)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		m := l.due()[0].progress()
		if m.GetRelayedBytes() < m.GetRelayedTokens() {
			t.Fatalf("read: m.GetRelayedBytes(): got %d, want at least %d", m.GetRelayedBytes(), m.GetRelayedTokens())
		}
		if m.GetCommittedAttempt() > 0 && m.GetProviderId() == "" {
			t.Fatal(`read: m.GetProviderId(): got "", want some text, where m.GetCommittedAttempt() > 0`)
		}
	}
}

func TestARequestWhoseLeaseMayBeOverIsAskedForBeforeAnythingIsRelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{}
		l := leases(peer, 100) // leases of a minute
		kept, lost := l.Begin("kept", nil, time.Now(), 0), l.Begin("lost", nil, time.Now(), 0)
		passTime(59 * time.Second)
		if !kept.EnsureHeld(t.Context()) {
			t.Fatal("within the lease: held: kept.EnsureHeld(t.Context()): got false, want true")
		}
		if len(peer.calls) > 0 {
			t.Fatalf("within the lease: len(peer.calls): got %d, want 0", len(peer.calls))
		}
		passTime(time.Second) // nobody has renewed: the process stood still
		peer.gone = []string{"lost", "another"}
		for range 3 {
			if !kept.EnsureHeld(t.Context()) {
				t.Fatal("a hold that is open counts as gone")
			}
			if lost.EnsureHeld(t.Context()) {
				t.Fatal("a hold that was given back counts as open")
			}
		}
		if len(peer.calls) != 1 {
			t.Errorf("asked: len(peer.calls): got %d, want 1, in %v", len(peer.calls), peer.calls)
		} else if len(peer.calls[0].GetRequests()) != 2 {
			t.Errorf("asked: len(peer.calls[0].GetRequests()): got %d, want 2, in %v", len(peer.calls[0].GetRequests()),
				peer.calls)
		}
		passTime(59 * time.Second)
		if !kept.EnsureHeld(t.Context()) {
			t.Error("within the lease that was renewed: calls: kept.EnsureHeld(t.Context()): got false, want true")
		} else if len(peer.calls) != 1 {
			t.Errorf("within the lease that was renewed: calls: len(peer.calls): got %d, want 1", len(peer.calls))
		}
	})
}

func TestAllThatWakeTogetherAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{slow: time.Second / 4, gone: []string{"7"}}
		l := leases(peer, 1500)
		var all []*Lease
		for i := range 1501 {
			all = append(all, l.Begin(strconv.Itoa(i), nil, time.Now(), time.Minute))
		}
		passTime(time.Minute)
		var wg sync.WaitGroup
		var held atomic.Int32
		for _, r := range all {
			wg.Go(func() {
				if r.EnsureHeld(t.Context()) {
					held.Add(1)
				}
			})
		}
		wg.Wait()
		// Two batches, and one for the request that is not kept.
		switch {
		case held.Load() != 1500:
			t.Errorf("%d are held, asked with %d calls: held.Load(): got %d, want 1500", held.Load(), len(peer.calls),
				held.Load())
		case len(peer.calls) != 3:
			t.Errorf("%d are held, asked with %d calls: len(peer.calls): got %d, want 3", held.Load(), len(peer.calls),
				len(peer.calls))
		case all[7].EnsureHeld(t.Context()):
			t.Errorf("%d are held, asked with %d calls: all[7].EnsureHeld(t.Context()): got true, want false", held.Load(),
				len(peer.calls))
		}
	})
}

func TestNobodyWaitsForLongerThanACallMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{slow: time.Hour}
		l := leases(peer, 2500)
		var all []*Lease
		for i := range 2500 {
			all = append(all, l.Begin(strconv.Itoa(i), nil, time.Now(), time.Minute))
		}
		passTime(time.Minute)
		gone, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		var wg sync.WaitGroup
		for i, r := range all {
			wg.Go(func() {
				began, ctx := time.Now(), t.Context()
				if i == 0 {
					ctx = gone // its client leaves meanwhile
				}
				if held, took := r.EnsureHeld(ctx), time.Since(began); took > l.cfg.CallTimeout {
					t.Errorf("request %d: took: got %v, want at most %v", i, took, l.cfg.CallTimeout)
				} else if held == (i == 0) {
					t.Errorf("request %d: held: got %t, want any but %t", i, held, i == 0)
				}
			})
		}
		wg.Wait()
	})
}

func TestALeaseIsAsLongAsItsGrantSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{}
		l := leases(peer, 10)
		l.SetLeaseDuration(time.Hour)
		r := l.Begin("short", nil, time.Now(), 10*time.Second)
		passTime(10*time.Second - 1)
		if !r.Valid() {
			t.Error("it is over too soon")
		}
		passTime(1)
		if r.Valid() {
			t.Error("another grant's lease makes it longer")
		}
		// However young it is, it is asked for.
		peer.gone = []string{"short"}
		if r.EnsureHeld(t.Context()) {
			t.Error("it is held, and has lapsed")
		}
	})
}

func TestARenewalThatComesTooLateIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{gone: []string{"lost"}}
		l := leases(peer, 100)
		lost, kept := l.Begin("lost", nil, time.Now(), 0), l.Begin("kept", nil, time.Now(), 0)
		during(l, 16*time.Second)
		switch {
		case lost.EnsureHeld(t.Context()):
			t.Error("lost.EnsureHeld(t.Context()): got true, want false")
		case !kept.EnsureHeld(t.Context()):
			t.Error("kept.EnsureHeld(t.Context()): got false, want true")
		case len(peer.calls) != 1:
			t.Errorf("len(peer.calls): got %d, want 1", len(peer.calls))
		}
	})
}

func TestAnOutageOfBillingEndsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &lessor{errs: []error{errors.New("down"), errors.New("down")}}
		l := leases(peer, 100)
		r := l.Begin("long", nil, time.Now(), 0)
		passTime(time.Minute)
		for range 3 { // asked once, and then for a lease no more
			if !r.EnsureHeld(t.Context()) {
				t.Fatal("r.EnsureHeld(t.Context()): got false, want true")
			}
			if len(peer.at) != 1 {
				t.Fatalf("len(peer.at): got %d, want 1", len(peer.at))
			}
		}
		passTime(time.Minute)
		if !r.EnsureHeld(t.Context()) {
			t.Error("a lease later: held: r.EnsureHeld(t.Context()): got false, want true")
		} else if len(peer.at) != 2 {
			t.Errorf("a lease later: len(peer.at): got %d, want 2", len(peer.at))
		}
		passTime(time.Minute)
		peer.gone = []string{"long"}
		if r.EnsureHeld(t.Context()) {
			t.Error("when billing-ledger is back, its word counts")
		}
	})
}

// passTime lets time go by in a bubble.
func passTime(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's time

func BenchmarkEnsureHeld(b *testing.B) {
	r := leases(&lessor{}, 1).Begin("id", nil, time.Now(), time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if !r.EnsureHeld(b.Context()) {
			b.Fatal("not held")
		}
	}
}

func BenchmarkLease(b *testing.B) {
	l := leases(&lessor{}, 1<<16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := l.Begin("id", nil, time.Time{}, 0)
			r.Committed(1, "hub", "provider")
			r.Relayed(1, 1)
			l.End(r)
		}
	})
}
