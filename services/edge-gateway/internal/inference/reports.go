package inference

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// ReportConfig bounds the queue.
type ReportConfig struct {
	// Queue is how many reports may wait.
	Queue int
	// BatchSize is how many go in one call, at most 200.
	BatchSize int
	// Linger is how long the first of a batch waits for others.
	Linger time.Duration
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// RetryFirst and RetryMax bound the wait before a batch is sent again.
	RetryFirst, RetryMax time.Duration
	// Drain is how long Run still sends reports after its context has ended.
	Drain time.Duration
}

// Reports carries the gateway's own report of each admitted request to billing-ledger,
// off the request's path. It is safe for concurrent use.
//
// Reports wait in a bounded queue. There they wait for other reports to share a
// transaction with, unless a request waits for the place that one of them gives back. A
// report that finds the queue full is dropped and counted, because no charge rests on it:
// a hold without a report expires. Batches of at most BatchSize are sent again with
// growing pauses until billing-ledger has taken them.
type Reports struct {
	admission billingv1.AdmissionServiceClient
	log       *slog.Logger
	cfg       ReportConfig
	waiting   chan *billingv1.RequestReport
	dropped   metric.Int64Counter
	// hurry ends the wait of the first report of a batch for others.
	hurry chan struct{}

	mu sync.Mutex
	// added and delivered count reports; flushes wait for some number.
	added, delivered int64
	flushes          []flush
}

// flush waits until so many reports are delivered.
type flush struct {
	upTo int64
	done chan struct{}
}

// NewReports makes an empty queue; dropped counts what did not fit.
func NewReports(admission billingv1.AdmissionServiceClient, log *slog.Logger, dropped metric.Int64Counter,
	cfg ReportConfig) *Reports {
	return &Reports{
		admission: admission, log: log, cfg: cfg, dropped: dropped,
		waiting: make(chan *billingv1.RequestReport, cfg.Queue), hurry: make(chan struct{}, 1),
	}
}

// Add takes a report, or drops it when the queue is full; it never blocks.
func (r *Reports) Add(report *billingv1.RequestReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.waiting <- report:
		r.added++
	default:
		r.dropped.Add(context.Background(), 1)
	}
}

// Hurry has the waiting reports sent without waiting for others.
func (r *Reports) Hurry() {
	select {
	case r.hurry <- struct{}{}:
	default:
	}
}

// Flush returns when all reports that were added before are delivered, or when
// ctx ends.
func (r *Reports) Flush(ctx context.Context) {
	r.mu.Lock()
	if r.delivered == r.added {
		r.mu.Unlock()
		return
	}
	f := flush{upTo: r.added, done: make(chan struct{})}
	r.flushes = append(r.flushes, f)
	r.mu.Unlock()
	r.Hurry()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// sent counts a batch that was delivered and ends the flushes that waited for it.
func (r *Reports) sent(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered += int64(n)
	r.flushes = slices.DeleteFunc(r.flushes, func(f flush) bool {
		if f.upTo > r.delivered {
			return false
		}
		close(f.done)
		return true
	})
}

// Run sends batches until ctx ends, and then the waiting reports, within the time
// to drain.
func (r *Reports) Run(ctx context.Context) {
	// A batch that was taken from the queue is sent even if ctx ends.
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	unlink := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(r.cfg.Drain, stop)
		context.AfterFunc(live, func() { timer.Stop() })
	})
	defer unlink()
	for {
		batch := r.collect(ctx)
		if len(batch) == 0 {
			return
		}
		if !r.deliver(live, batch) {
			r.log.WarnContext(ctx, "accounts of requests were not delivered before the stop",
				"lost", len(batch)+len(r.waiting))
			return
		}
		r.sent(len(batch))
	}
}

// collect waits for the next batch. It is empty when ctx has ended and no report waits.
func (r *Reports) collect(ctx context.Context) []*billingv1.RequestReport {
	var batch []*billingv1.RequestReport
	select {
	case report := <-r.waiting:
		batch = append(batch, report)
	case <-ctx.Done():
		return r.fill(nil)
	}
	timer := time.NewTimer(r.cfg.Linger)
	defer timer.Stop()
	for len(batch) < r.cfg.BatchSize {
		select {
		case report := <-r.waiting:
			batch = append(batch, report)
		case <-timer.C:
			return batch
		case <-r.hurry:
			return r.fill(batch)
		case <-ctx.Done():
			return r.fill(batch)
		}
	}
	return batch
}

// fill adds the waiting reports.
func (r *Reports) fill(batch []*billingv1.RequestReport) []*billingv1.RequestReport {
	for len(batch) < r.cfg.BatchSize {
		select {
		case report := <-r.waiting:
			batch = append(batch, report)
		default:
			return batch
		}
	}
	return batch
}

// deliver sends a batch until billing-ledger has taken it; it reports false when ctx
// ended first. A batch that billing-ledger calls malformed is given up, because sending
// it again would change nothing. Its holds expire.
func (r *Reports) deliver(ctx context.Context, batch []*billingv1.RequestReport) bool {
	for wait := r.cfg.RetryFirst; ; wait = min(2*wait, r.cfg.RetryMax) {
		err := r.Send(ctx, batch)
		if err == nil {
			return true
		}
		r.log.WarnContext(ctx, "accounts of requests are sent again later", "error", err, "wait", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// Waiting takes a batch of the waiting reports, for callers who run the queue by
// hand. They send each batch until it is taken.
func (r *Reports) Waiting() []*billingv1.RequestReport { return r.fill(nil) }

// Send sends a batch once. After an error it is to be sent again.
func (r *Reports) Send(ctx context.Context, batch []*billingv1.RequestReport) error {
	err := r.conclude(ctx, batch)
	if err == nil {
		crash.At("gateway.concluded")
		return nil
	}
	if f, ok := fault.As(err); ok && f.Kind == fault.Invalid {
		r.log.ErrorContext(ctx, "billing-ledger refuses accounts of requests", "error", err, "lost", len(batch))
		return nil
	}
	return err
}

func (r *Reports) conclude(ctx context.Context, batch []*billingv1.RequestReport) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	_, err := r.admission.Conclude(ctx, &billingv1.ConcludeRequest{Reports: batch})
	return err
}
