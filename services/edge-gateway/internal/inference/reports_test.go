package inference

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// reportLedger takes reports, or fails as the test says.
type reportLedger struct {
	billingv1.AdmissionServiceClient
	mu      sync.Mutex
	errs    []error // one for each call to come; then none
	batches [][]string
	calls   int
}

func (l *reportLedger) Conclude(_ context.Context, req *billingv1.ConcludeRequest,
	_ ...grpc.CallOption) (*billingv1.ConcludeResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	var ids []string
	for _, w := range req.GetReports() {
		ids = append(ids, w.GetRequestId())
	}
	l.batches = append(l.batches, ids)
	return &billingv1.ConcludeResponse{}, nil
}

func setupReports(t *testing.T, l *reportLedger) (*Reports, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	dropped, err := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("t").Int64Counter("dropped")
	if err != nil {
		t.Fatal(err)
	}
	return NewReports(l, slog.New(slog.DiscardHandler), dropped, ReportConfig{
		Queue: 500, BatchSize: 200, Linger: 25 * time.Millisecond, CallTimeout: time.Second,
		RetryFirst: 100 * time.Millisecond, RetryMax: 5 * time.Second, Drain: 10 * time.Second,
	}), reader
}

func addReports(r *Reports, n int) {
	for i := range n {
		r.Add(&billingv1.RequestReport{RequestId: strconv.Itoa(i)})
	}
}

func runReports(r *Reports) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (l *reportLedger) delivered() (n int) {
	for _, b := range l.batches {
		n += len(b)
	}
	return n
}

func TestAccountsGoInBatchesOfBoundedSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{}
		r, _ := setupReports(t, l)
		addReports(r, 450)
		stop := runReports(r)
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		stop()
		switch {
		case len(l.batches) != 3:
			t.Errorf("len(l.batches): got %d, want 3", len(l.batches))
		case len(l.batches[0]) != 200:
			t.Errorf("len(l.batches[0]): got %d, want 200", len(l.batches[0]))
		case len(l.batches[2]) != 50:
			t.Errorf("len(l.batches[2]): got %d, want 50", len(l.batches[2]))
		case l.batches[2][49] != "449":
			t.Errorf(`l.batches[2][49]: got %q, want "449"`, l.batches[2][49])
		}
	})
}

func TestWhatDoesNotFitIsDroppedAndCounted(t *testing.T) {
	r, reader := setupReports(t, &reportLedger{})
	addReports(r, 507)
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	sum := data.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64])
	if sum.DataPoints[0].Value != 7 {
		t.Errorf("sum.DataPoints[0].Value: got %d, want 7", sum.DataPoints[0].Value)
	} else if len(r.waiting) != 500 {
		t.Errorf("len(r.waiting): got %d, want 500", len(r.waiting))
	}
}

func TestABatchIsSentUntilItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{}
		for range 10 {
			l.errs = append(l.errs, fault.New(fault.Unavailable, fault.ServiceUnavailable, "down"))
		}
		l.errs = append(l.errs, errors.New("boom"))
		r, _ := setupReports(t, l)
		stop := runReports(r)
		addReports(r, 3)
		begun := time.Now()
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		stop()
		// 0.1 + 0.2 + … + 3.2 + 5 × 5: the waits grow and are bounded.
		if l.calls != 12 {
			t.Errorf("l.calls: got %d, want 12 (time.Since(begun) is %v)", l.calls, time.Since(begun))
		} else if l.delivered() != 3 {
			t.Errorf("l.delivered(): got %d, want 3 (time.Since(begun) is %v)", l.delivered(), time.Since(begun))
		}
	})
}

func TestAMalformedBatchIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{errs: []error{fault.New(fault.Invalid, fault.InvalidValue, "no")}}
		r, _ := setupReports(t, l)
		stop := runReports(r)
		addReports(r, 1)
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		addReports(r, 2)
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		stop()
		if l.calls != 2 {
			t.Errorf("l.calls: got %d, want 2", l.calls)
		} else if l.delivered() != 2 {
			t.Errorf("l.delivered(): got %d, want 2", l.delivered())
		}
	})
}

func TestAStopDeliversWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{errs: []error{errors.New("boom"), errors.New("boom")}}
		r, _ := setupReports(t, l)
		addReports(r, 500)
		stop := runReports(r)
		stop()
		if l.delivered() != 500 {
			t.Errorf("delivered: got %d, want 500", l.delivered())
		}
	})
}

func TestAStopDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{}
		for range 1000 {
			l.errs = append(l.errs, errors.New("boom"))
		}
		r, _ := setupReports(t, l)
		addReports(r, 1)
		stop := runReports(r)
		begun := time.Now()
		stop()
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("stopped after: got %v, want %v", took, 10*time.Second)
		}
	})
}

func TestAFlushReturnsOnceAllThatWaitedIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{errs: []error{fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")}}
		r, _ := setupReports(t, l)
		stop := runReports(r)
		defer stop()
		addReports(r, 3)
		began := time.Now()
		r.Flush(t.Context())
		if l.delivered() != 3 {
			t.Errorf("got %d delivered after a flush, want 3", l.delivered())
		}
		if took := time.Since(began); took != 100*time.Millisecond { // the wait after the first failure, and no linger
			t.Errorf("the flush took: got %v, want 100ms", took)
		}
		began = time.Now()
		if r.Flush(t.Context()); time.Since(began) != 0 {
			t.Errorf("a flush of nothing took: got %v, want no time", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		l.mu.Lock()
		l.errs = []error{fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")}
		l.mu.Unlock()
		addReports(r, 1)
		began = time.Now()
		if r.Flush(ctx); time.Since(began) != 10*time.Millisecond {
			t.Errorf("a flush without a ledger took: got %v, want the 10ms of its context", time.Since(began))
		}
	})
}

func TestWhatIsHurriedDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &reportLedger{}
		r, _ := setupReports(t, l)
		stop := runReports(r)
		defer stop()
		addReports(r, 1)
		r.Hurry()
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.delivered() != 1 {
			t.Errorf("got %d delivered at once, want 1", l.delivered())
		}
	})
}
