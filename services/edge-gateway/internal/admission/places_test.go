package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// full is billing-ledger with so many places, of which some are given back by
// reports.
type full struct {
	billingv1.AdmissionServiceClient
	routerv1.RouterServiceClient
	mu            sync.Mutex
	places, calls int
}

func (f *full) Admit(context.Context, *billingv1.AdmitRequest, ...grpc.CallOption) (*billingv1.AdmitResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.places == 0 {
		return nil, fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded, "too many requests of this key are under way")
	}
	f.places--
	return &billingv1.AdmitResponse{}, nil
}

func (f *full) free() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places++
}

func admitter(f *full, flush func(context.Context)) *Admitter {
	return New(f, f, nil, Config{AdmitTimeout: time.Second, FlushReports: flush})
}

func TestAPlaceThatThisGatewayHasYetToGiveBackIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{}
		a := admitter(f, func(context.Context) { f.free() })
		began := time.Now()
		if _, err := a.admitWithPlace(t.Context(), &Request{KeyID: "k"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 || f.calls != 2 {
			t.Errorf("got %d admissions in %v, want the second to be made at once", f.calls, took)
		}
		if !a.Contended("k") {
			t.Error(`whose reports are to go out at once: a.Contended("k"): got false, want true`)
		} else if a.Contended("other") {
			t.Error(`whose reports are to go out at once: a.Contended("other"): got true, want false`)
		}
		pass(contendedFor)
		synctest.Wait()
		if a.Contended("k") {
			t.Errorf("want reports to linger again after %v", contendedFor)
		}
	})
}

func TestAPlaceThatAnotherGatewayGivesBackIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{}
		a := admitter(f, func(context.Context) {})
		for _, wait := range []time.Duration{60 * time.Millisecond, 400 * time.Millisecond} {
			time.AfterFunc(wait, f.free)
			if _, err := a.admitWithPlace(t.Context(), &Request{KeyID: "k"}); err != nil {
				t.Errorf("got %v, want the place that was given back after %v", err, wait)
			}
		}
	})
}

func TestWhoHasTooManyOpenIsRefusedSoonAndCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &full{}
		a := admitter(f, func(context.Context) {})
		began := time.Now()
		var callers sync.WaitGroup
		for range 3 * maxWaiting {
			callers.Go(func() {
				if _, err := a.admitWithPlace(t.Context(), &Request{KeyID: "k"}); !fault.Is(err, fault.ConcurrencyLimitExceeded) {
					t.Errorf("got %v, want %s", err, fault.ConcurrencyLimitExceeded)
				}
			})
		}
		callers.Wait()
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("refused: got %v, want 500ms", took)
		}
		if want := 3*maxWaiting + maxWaiting*len(placeWaits); f.calls != want {
			t.Errorf("got %d admissions, want %d: %d wait, and no more", f.calls, want, maxWaiting)
		}
		if len(a.places.waiting) != 0 {
			t.Errorf("waiters when nobody waits: len(a.places.waiting): got %d, want 0, in %v", len(a.places.waiting),
				a.places.waiting)
		} else if a.places.all != 0 {
			t.Errorf("waiters when nobody waits: a.places.all: got %d, want 0", a.places.all)
		}
		pass(contendedFor)
	})
}

func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's time
