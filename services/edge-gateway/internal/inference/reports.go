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
	// Queue is how many accounts may wait.
	Queue int
	// BatchSize is how many go in one call, at most 200.
	BatchSize int
	// Linger is how long the first of a batch waits for others.
	Linger time.Duration
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// RetryFirst and MaxRetry bound the wait before a batch is sent again.
	RetryFirst, RetryMost time.Duration
	// Drain is how long Run goes on sending after its context has ended.
	Drain time.Duration
}

// Queue carries the gateway's own account of each admitted request to
// billing-ledger, off the request's path. It is safe for concurrent use.
//
// Accounts wait in a queue of bounded length, and there for others to share a
// transaction with, unless a request waits for the place that one of them gives
// back; what comes when it is full is dropped and counted, for no charge rests
// on it: a hold that nobody concludes expires. Batches of at most BatchSize are
// sent again with growing waits until billing-ledger has taken them.
type Queue struct {
	admission billingv1.AdmissionServiceClient
	log       *slog.Logger
	cfg       ReportConfig
	waiting   chan *billingv1.RequestReport
	dropped   metric.Int64Counter
	// hurry ends the wait of the first of a batch for others.
	hurry chan struct{}

	mu sync.Mutex
	// added and delivered count accounts; flushes wait for some number.
	added, delivered int64
	flushes          []flush
}

// flush waits until so many accounts are delivered.
type flush struct {
	upTo int64
	done chan struct{}
}

// NewQueue makes an empty queue; dropped counts what did not fit.
func NewQueue(admission billingv1.AdmissionServiceClient, log *slog.Logger, dropped metric.Int64Counter,
	cfg ReportConfig) *Queue {
	return &Queue{
		admission: admission, log: log, cfg: cfg, dropped: dropped,
		waiting: make(chan *billingv1.RequestReport, cfg.Queue), hurry: make(chan struct{}, 1),
	}
}

// Add takes an account, or drops it when the queue is full; it never blocks.
func (q *Queue) Add(w *billingv1.RequestReport) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case q.waiting <- w:
		q.added++
	default:
		q.dropped.Add(context.Background(), 1)
	}
}

// Hurry has what waits be sent without waiting for others.
func (q *Queue) Hurry() {
	select {
	case q.hurry <- struct{}{}:
	default:
	}
}

// Flush returns when all accounts that were added before are delivered, or when
// ctx ends.
func (q *Queue) Flush(ctx context.Context) {
	q.mu.Lock()
	if q.delivered == q.added {
		q.mu.Unlock()
		return
	}
	f := flush{upTo: q.added, done: make(chan struct{})}
	q.flushes = append(q.flushes, f)
	q.mu.Unlock()
	q.Hurry()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
}

// sent counts a batch that was delivered and ends the flushes that waited for it.
func (q *Queue) sent(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivered += int64(n)
	q.flushes = slices.DeleteFunc(q.flushes, func(f flush) bool {
		if f.upTo > q.delivered {
			return false
		}
		close(f.done)
		return true
	})
}

// Run sends batches until ctx ends, then what still waits, within the time to
// drain.
func (q *Queue) Run(ctx context.Context) {
	// What was taken from the queue is sent even as ctx ends.
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	unlink := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(q.cfg.Drain, stop)
		context.AfterFunc(live, func() { timer.Stop() })
	})
	defer unlink()
	for {
		batch := q.collect(ctx)
		if len(batch) == 0 {
			return
		}
		if !q.deliver(live, batch) {
			q.log.WarnContext(ctx, "accounts of requests were not delivered before the stop", "lost", len(batch)+len(q.waiting))
			return
		}
		q.sent(len(batch))
	}
}

// collect waits for the next batch. It is empty when ctx has ended and nothing
// waits.
func (q *Queue) collect(ctx context.Context) []*billingv1.RequestReport {
	var batch []*billingv1.RequestReport
	select {
	case w := <-q.waiting:
		batch = append(batch, w)
	case <-ctx.Done():
		return q.fill(nil)
	}
	timer := time.NewTimer(q.cfg.Linger)
	defer timer.Stop()
	for len(batch) < q.cfg.BatchSize {
		select {
		case w := <-q.waiting:
			batch = append(batch, w)
		case <-timer.C:
			return batch
		case <-q.hurry:
			return q.fill(batch)
		case <-ctx.Done():
			return q.fill(batch)
		}
	}
	return batch
}

// fill takes what waits now.
func (q *Queue) fill(batch []*billingv1.RequestReport) []*billingv1.RequestReport {
	for len(batch) < q.cfg.BatchSize {
		select {
		case w := <-q.waiting:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

// deliver sends a batch until it is taken; false when ctx ended first. A batch
// that billing-ledger calls malformed is given up: sending it again changes
// nothing, and the holds expire.
func (q *Queue) deliver(ctx context.Context, batch []*billingv1.RequestReport) bool {
	for wait := q.cfg.RetryFirst; ; wait = min(2*wait, q.cfg.RetryMost) {
		err := q.Send(ctx, batch)
		if err == nil {
			return true
		}
		q.log.WarnContext(ctx, "accounts of requests are sent again later", "error", err, "wait", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// Waiting takes up to a batch of what waits now, for those who run the queue by
// hand; they Send each batch until it is taken.
func (q *Queue) Waiting() []*billingv1.RequestReport { return q.fill(nil) }

// Send sends a batch once. An error tells that it is to be sent again.
func (q *Queue) Send(ctx context.Context, batch []*billingv1.RequestReport) error {
	err := q.conclude(ctx, batch)
	if err == nil {
		crash.At("gateway.concluded")
		return nil
	}
	if f, ok := fault.As(err); ok && f.Kind == fault.Invalid {
		q.log.ErrorContext(ctx, "billing-ledger refuses accounts of requests", "error", err, "lost", len(batch))
		return nil
	}
	return err
}

func (q *Queue) conclude(ctx context.Context, batch []*billingv1.RequestReport) error {
	ctx, cancel := context.WithTimeout(ctx, q.cfg.CallTimeout)
	defer cancel()
	_, err := q.admission.Conclude(ctx, &billingv1.ConcludeRequest{Reports: batch})
	return err
}
