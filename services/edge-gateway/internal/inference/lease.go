package inference

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

// LeaseConfig has the times and bounds of leases.
type LeaseConfig struct {
	// Interval is the pause between two renewals until billing-ledger says how long a
	// lease lasts; then the pause is a quarter of that. A request that ends before costs
	// no call.
	Interval time.Duration
	// Retry is the pause after a renewal that failed, if that is shorter.
	Retry time.Duration
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// MaxRequests is how many requests are kept. The leases of further requests are not
	// renewed while they run.
	MaxRequests int
	// Await returns when done is closed or ctx ends; nil for the obvious way. A
	// simulation has another.
	Await func(ctx context.Context, done <-chan struct{})
}

// Leases knows the admitted requests under way and renews the holds of the requests that
// run for long. Each renewal carries the count of what was relayed, so that the last
// renewals of a gateway that dies stand in for its reports. It is safe for concurrent
// use.
//
// A gateway that stood still may wake long after holds of its requests were released.
// Nobody would pay for what it relayed of them; see Lease.EnsureHeld.
type Leases struct {
	admission billingv1.AdmissionServiceClient
	clock     clock.Clock
	log       *slog.Logger
	cfg       LeaseConfig

	// interval is the pause in force. changed wakes Run for another pause.
	interval atomic.Int64
	changed  chan struct{}

	mu      sync.Mutex
	running map[*Lease]struct{}
	renewal *renewal // under way; nil for none
}

// renewal is a renewal of all leases that are due. Every request that finds its lease
// over meanwhile waits for it, because all leases are over when a process wakes that
// stood still.
type renewal struct {
	done chan struct{}
	err  error
}

// NewLeases makes an empty register.
func NewLeases(admission billingv1.AdmissionServiceClient, clk clock.Clock, log *slog.Logger, cfg LeaseConfig) *Leases {
	l := &Leases{
		admission: admission, clock: clk, log: log, cfg: cfg,
		changed: make(chan struct{}, 1), running: map[*Lease]struct{}{},
	}
	if l.cfg.Await == nil {
		l.cfg.Await = await
	}
	l.interval.Store(int64(cfg.Interval))
	return l
}

func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

const (
	// shortestPause keeps a very short lease from making a busy loop.
	shortestPause = 10 * time.Millisecond
	// perLease is how often a lease is renewed before it is over.
	perLease = 4
)

// SetLeaseDuration sets how long leases last, by billing-ledger's answer; 0 changes
// nothing.
func (l *Leases) SetLeaseDuration(duration time.Duration) {
	if duration <= 0 {
		return
	}
	interval := int64(max(duration/perLease, shortestPause))
	if l.interval.Swap(interval) == interval {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *Leases) pause() time.Duration {
	return time.Duration(l.interval.Load())
}

// duration returns how long after a renewal a hold is surely open.
func (l *Leases) duration() time.Duration { return perLease * l.pause() }

// Lease is the hold of one admitted request under way. The request's own goroutine writes
// what was committed and relayed, and Leases reads it, without a lock. A nil Lease
// accepts every call and keeps nothing.
type Lease struct {
	leases  *Leases
	id      string
	ticket  []byte // of the admission; nil for none
	started time.Time
	// until is the time before which the hold is surely open. lapsed reports that the
	// hold was released.
	until  atomic.Pointer[time.Time]
	lapsed atomic.Bool
	kept   bool // it is renewed while it runs
	// hub and provider are written once, before attempt is.
	hub, provider string
	attempt       atomic.Uint32
	tokens, bytes atomic.Int64
}

// Begin keeps a request whose admission was asked for at a time and granted for a lease, with the
// ticket of the admission. A lease of 0 is as long as the last one. The caller calls End.
func (l *Leases) Begin(requestID string, ticket []byte, at time.Time, duration time.Duration) *Lease {
	if duration <= 0 {
		duration = l.duration()
	}
	lease := &Lease{leases: l, id: requestID, ticket: ticket, started: at}
	lease.extend(at.Add(duration))
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease.kept = len(l.running) < l.cfg.MaxRequests; lease.kept {
		l.running[lease] = struct{}{}
	}
	return lease
}

// End forgets a request.
func (l *Leases) End(lease *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, lease)
}

// Committed notes the attempt whose answer is relayed. It is called once.
func (l *Lease) Committed(attempt uint32, hubID, providerID string) {
	if l == nil {
		return
	}
	l.hub, l.provider = hubID, providerID
	l.attempt.Store(attempt)
}

// Relayed notes how much has been written to the client so far.
func (l *Lease) Relayed(tokens, bytes int64) {
	if l == nil {
		return
	}
	l.bytes.Store(bytes) // first: whoever sees the tokens sees their bytes
	l.tokens.Store(tokens)
}

// EnsureHeld reports whether the hold of the request still stands for what is relayed
// next; false also when ctx ends first. It asks billing-ledger only when the lease may be
// over: after a standstill of the process, or after renewals that failed for as long.
// When billing-ledger cannot be asked it returns true for one lease more, so that an
// outage, in which no hold is released, ends no answer. A gateway that alone is cut off
// from billing-ledger relays its requests under way for free meanwhile.
//
// A request that costs nothing is treated alike, because with its hold it has lost its
// place among the requests that run at once.
func (l *Lease) EnsureHeld(ctx context.Context) bool {
	for tries := 0; !l.Valid(); tries++ {
		if l.lapsed.Load() {
			return false
		}
		err := l.leases.ask(ctx, l)
		switch {
		case ctx.Err() != nil:
			return false
		case (err != nil || tries > 0) && !l.lapsed.Load() && !l.Valid():
			l.extend(l.leases.clock.Now().Add(l.leases.duration()))
		}
	}
	return true
}

// Valid reports whether the hold stands as far as is known without asking. Time is
// measured by both of the machine's clocks, because one runs on while the machine is
// suspended and the other cannot be set.
func (l *Lease) Valid() bool {
	if l == nil {
		return true
	}
	if l.lapsed.Load() {
		return false
	}
	now, until := l.leases.clock.Now(), *l.until.Load()
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

func (l *Lease) extend(until time.Time) { l.until.Store(&until) }

// progress is the part of a renewal that reports the request.
func (l *Lease) progress() *billingv1.RunningRequest {
	m := &billingv1.RunningRequest{RequestId: l.id, CommittedAttempt: l.attempt.Load(), Ticket: l.ticket}
	if m.GetCommittedAttempt() > 0 {
		m.HubId, m.ProviderId = l.hub, l.provider
		m.RelayedTokens = l.tokens.Load()
		m.RelayedBytes = l.bytes.Load()
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
			// The pause counts from the last renewal, so that replicas that give
			// different leases in turn do not put the next one off for ever.
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

// ask renews the lease of a request together with all others that are due.
func (l *Leases) ask(ctx context.Context, lease *Lease) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	if !lease.kept {
		return l.call(ctx, []*Lease{lease})
	}
	l.mu.Lock()
	r, leads := l.renewal, l.renewal == nil
	if leads {
		r = &renewal{done: make(chan struct{})}
		l.renewal = r
	}
	l.mu.Unlock()
	if !leads {
		if l.cfg.Await(ctx, r.done); ctx.Err() != nil {
			return ctx.Err()
		}
		return r.err
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewal = nil
		close(r.done)
	}()
	// The renewal is for the other requests too, so it does not end with this client.
	all, cancelAll := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.CallTimeout)
	defer cancelAll()
	if r.err = l.Renew(all); r.err != nil {
		l.log.WarnContext(ctx, "whether holds are still open could not be asked", "error", r.err)
	}
	return r.err
}

// Renew renews every request that has run for longer than the pause, and returns the
// first error.
func (l *Leases) Renew(ctx context.Context) error {
	var first error
	for batch := range slices.Chunk(l.due(), maxRenewals) {
		if err := l.call(ctx, batch); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (l *Leases) call(ctx context.Context, batch []*Lease) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	req := &billingv1.RenewRequest{Requests: make([]*billingv1.RunningRequest, len(batch))}
	for i, lease := range batch {
		req.Requests[i] = lease.progress()
	}
	// The lease counts from before the call, because it is not known when the store
	// extends it.
	until := l.clock.Now().Add(l.duration())
	resp, err := l.admission.Renew(ctx, req)
	if err != nil {
		return err
	}
	lapsed := make(map[string]bool, len(resp.GetLapsedRequestIds()))
	for _, id := range resp.GetLapsedRequestIds() {
		lapsed[id] = true
	}
	for _, lease := range batch {
		if lapsed[lease.id] {
			lease.lapsed.Store(true)
		}
		lease.extend(until)
	}
	return nil
}

// due returns the requests that are old enough, and the requests whose holds are no
// longer surely open.
func (l *Leases) due() []*Lease {
	latest := l.clock.Now().Add(-l.pause())
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*Lease
	for lease := range l.running {
		if !lease.started.After(latest) || !lease.Valid() && !lease.lapsed.Load() {
			out = append(out, lease)
		}
	}
	return out
}
