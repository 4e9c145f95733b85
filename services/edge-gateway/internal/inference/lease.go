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

// LeaseConfig bounds what is kept of running requests.
type LeaseConfig struct {
	// Interval is the pause between two renewals until billing-ledger tells how
	// long a lease lasts; then it is a quarter of that. A request that ends
	// before costs no call.
	Interval time.Duration
	// Retry is the pause after one that failed, when that is shorter.
	Retry time.Duration
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// MaxRequests is how many requests are kept; the leases of more are not
	// renewed while they run.
	MaxRequests int
	// Await returns when done is closed or ctx ends; nil for the obvious way. A
	// simulation has another.
	Await func(ctx context.Context, done <-chan struct{})
}

// Leases knows the admitted requests under way and renews the holds of those
// that run for long. With each renewal goes the count of what was relayed, so
// that a gateway that dies leaves a witness. It is safe for concurrent use.
//
// A gateway that stood still may wake when holds of its requests were given back
// long ago. What it relayed of them nobody would pay for; see Lease.EnsureHeld.
type Leases struct {
	admission billingv1.AdmissionServiceClient
	clock     clock.Clock
	log       *slog.Logger
	cfg       LeaseConfig

	// interval is the pause in force; changed tells Run of another.
	interval atomic.Int64
	changed  chan struct{}

	mu      sync.Mutex
	running map[*Lease]struct{}
	renewal *renewal // under way; nil for none
}

// renewal is a renewal of all that is due, for which everybody waits who finds a
// lease over meanwhile: when a process wakes that stood still, all of them are.
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
	// shortestPause keeps a lease that is told too short from making a busy loop.
	shortestPause = 10 * time.Millisecond
	// perLease is how often a lease is renewed before it is over.
	perLease = 4
)

// SetLeaseDuration takes what billing-ledger tells of how long leases last; 0 tells
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

// duration is how long a hold is surely open after a renewal.
func (l *Leases) duration() time.Duration { return perLease * l.pause() }

// Lease is the hold of one admitted request under way. The request's own goroutine writes what was
// committed and relayed, and Leases reads it, without a lock. A nil one takes
// everything and keeps nothing.
type Lease struct {
	leases  *Leases
	id      string
	started time.Time
	// until is the time before which the hold is surely open; lapsed tells that
	// it was given back.
	until  atomic.Pointer[time.Time]
	lapsed atomic.Bool
	kept   bool // it is renewed while it runs
	// hub and provider are written once, before attempt is.
	hub, provider string
	attempt       atomic.Uint32
	tokens, bytes atomic.Int64
}

// Begin takes up a request whose admission was asked for at a time and granted
// for a lease; one of 0 is as long as others were. The caller calls End.
func (l *Leases) Begin(requestID string, at time.Time, duration time.Duration) *Lease {
	if duration <= 0 {
		duration = l.duration()
	}
	lease := &Lease{leases: l, id: requestID, started: at}
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

// Relayed notes how much has been written to the client by now.
func (l *Lease) Relayed(tokens, bytes int64) {
	if l == nil {
		return
	}
	l.bytes.Store(bytes) // first: whoever sees the tokens sees their bytes
	l.tokens.Store(tokens)
}

// EnsureHeld reports whether the hold of the request still stands for what is relayed
// next; false also when ctx ends first. It asks billing-ledger only when the
// lease may be over, which takes a process that stood still, or renewals that
// failed for as long. When billing-ledger cannot be asked it is true for one
// lease more, so that an outage, in which nothing is given back, ends no answer.
// A gateway that alone is cut off relays for free meanwhile what it has under
// way.
//
// It is the same for requests that cost nothing: with its hold a request has
// lost its place among those that run at once.
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

// Valid reports whether the hold stands for all that is known without asking. Time
// counts by both of the machine's clocks: the one goes on while the machine is
// suspended, the other is not set.
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

// progress is what is told of the request with a renewal.
func (l *Lease) progress() *billingv1.RunningRequest {
	m := &billingv1.RunningRequest{RequestId: l.id, CommittedAttempt: l.attempt.Load()}
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

// ask finds out about a request whose lease may be over, together with all
// others that are due.
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
	// It is for the others, too, whoever leaves meanwhile.
	all, cancelAll := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.CallTimeout)
	defer cancelAll()
	if r.err = l.Renew(all); r.err != nil {
		l.log.WarnContext(ctx, "whether holds are still open could not be asked", "error", r.err)
	}
	return r.err
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

func (l *Leases) call(ctx context.Context, batch []*Lease) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	req := &billingv1.RenewRequest{Requests: make([]*billingv1.RunningRequest, len(batch))}
	for i, lease := range batch {
		req.Requests[i] = lease.progress()
	}
	// From before the call on: it is not known when the store extends a lease.
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

// due are the requests that are old enough, or of which it is not sure any more
// that their holds are open.
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
