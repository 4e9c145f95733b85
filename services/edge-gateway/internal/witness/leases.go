package witness

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// maxRenewals is billing-ledger's own bound on one call.
const maxRenewals = 1000

// LeaseConfig bounds what is kept of running requests.
type LeaseConfig struct {
	// Every is the pause between two renewals until billing-ledger tells how
	// long a lease lasts; then it is a quarter of that. A request that ends
	// before costs no call.
	Every time.Duration
	// Retry is the pause after one that failed, when that is shorter.
	Retry time.Duration
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// Most is how many requests are kept; the leases of more are not renewed.
	Most int
}

// Leases knows the admitted requests under way and renews the holds of those
// that run for long. With each renewal goes the count of what was relayed, so
// that a gateway that dies leaves a witness. It is safe for concurrent use.
type Leases struct {
	admission billingv1.AdmissionServiceClient
	clock     clock.Clock
	log       *slog.Logger
	cfg       LeaseConfig

	// every is the pause in force; changed tells Run of another.
	every   atomic.Int64
	changed chan struct{}

	mu      sync.Mutex
	running map[*Running]struct{}
}

// NewLeases makes an empty register.
func NewLeases(admission billingv1.AdmissionServiceClient, clk clock.Clock, log *slog.Logger, cfg LeaseConfig) *Leases {
	l := &Leases{
		admission: admission, clock: clk, log: log, cfg: cfg,
		changed: make(chan struct{}, 1), running: map[*Running]struct{}{},
	}
	l.every.Store(int64(cfg.Every))
	return l
}

// shortestPause keeps a lease that is told too short from making a busy loop.
const shortestPause = 10 * time.Millisecond

// Last takes what billing-ledger tells of how long leases last; 0 tells nothing.
func (l *Leases) Last(lease time.Duration) {
	if lease <= 0 {
		return
	}
	every := int64(max(lease/4, shortestPause))
	if l.every.Swap(every) == every {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *Leases) pause() time.Duration {
	return time.Duration(l.every.Load())
}

// Running is one admitted request under way. Its own goroutine writes it, and
// Leases reads it, without a lock. A nil one takes everything and keeps nothing.
type Running struct {
	id      string
	started time.Time
	// hub and provider are written once, before attempt is.
	hub, provider string
	attempt       atomic.Uint32
	tokens, bytes atomic.Int64
}

// Begin takes up a request that was admitted at a time. The caller calls End.
func (l *Leases) Begin(requestID string, at time.Time) *Running {
	r := &Running{id: requestID, started: at}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.running) < l.cfg.Most {
		l.running[r] = struct{}{}
	}
	return r
}

// End forgets a request.
func (l *Leases) End(r *Running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, r)
}

// Committed notes the attempt whose answer is relayed. It is called once.
func (r *Running) Committed(attempt uint32, hubID, providerID string) {
	if r == nil {
		return
	}
	r.hub, r.provider = hubID, providerID
	r.attempt.Store(attempt)
}

// Relayed notes how much has been written to the client by now.
func (r *Running) Relayed(tokens, bytes int64) {
	if r == nil {
		return
	}
	r.bytes.Store(bytes) // first: whoever sees the tokens sees their bytes
	r.tokens.Store(tokens)
}

func (r *Running) report() *billingv1.RunningRequest {
	m := &billingv1.RunningRequest{RequestId: r.id, CommittedAttempt: r.attempt.Load()}
	if m.GetCommittedAttempt() > 0 {
		m.HubId, m.ProviderId = r.hub, r.provider
		m.RelayedTokens = r.tokens.Load()
		m.RelayedBytes = r.bytes.Load()
	}
	return m
}

// Run renews until ctx ends.
func (l *Leases) Run(ctx context.Context) {
	last := l.clock.Now()
	timer := time.NewTimer(l.pause())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
			// From the last renewal on, so that replicas that tell different
			// leases in turn do not put it off for ever.
			timer.Reset(last.Add(l.pause()).Sub(l.clock.Now()))
			continue
		case <-timer.C:
			last = l.clock.Now()
		}
		wait := l.pause()
		if err := l.Renew(ctx); err != nil && ctx.Err() == nil {
			wait = min(wait, l.cfg.Retry)
			l.log.WarnContext(ctx, "the holds of running requests could not be renewed", "error", err, "wait", wait)
		}
		timer.Reset(wait)
	}
}

// Renew tells of every request that runs for longer than the pause, and returns
// the first error.
func (l *Leases) Renew(ctx context.Context) error {
	var first error
	for batch := range slices.Chunk(l.due(), maxRenewals) {
		if err := l.call(ctx, batch); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (l *Leases) call(ctx context.Context, batch []*billingv1.RunningRequest) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	_, err := l.admission.Renew(ctx, &billingv1.RenewRequest{Requests: batch})
	return err
}

// due reports the requests that are old enough.
func (l *Leases) due() []*billingv1.RunningRequest {
	latest := l.clock.Now().Add(-l.pause())
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*billingv1.RunningRequest
	for r := range l.running {
		if !r.started.After(latest) {
			out = append(out, r.report())
		}
	}
	return out
}
