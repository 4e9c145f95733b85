package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
)

const (
	// MaxSends bounds the messages that a process has under way.
	MaxSends = 32
	// MaxOfAccount bounds those of one account.
	MaxOfAccount = 2
	// Lease is how long whoever sends to an endpoint has it: far above SendTimeout.
	Lease = time.Minute
	// FanBatch bounds the events that are handed out to endpoints at once, and lookInterval is
	// the pause between two looks for what is due.
	FanBatch     = 200
	lookInterval = 2 * time.Second
	storeTimeout = 10 * time.Second
)

// MaxWaiting bounds the deliveries of an account that wait. The oldest make room, and are
// counted.
const MaxWaiting = 1000

// Queue keeps what is to be sent.
type Queue interface {
	// FanOut makes deliveries of up to limit events, and drops the oldest of accounts that have
	// more than MaxWaiting. more reports whether there may be other events.
	FanOut(ctx context.Context, limit int) (dropped int, more bool, err error)
	// TakeTurns takes up to limit endpoints that are due, for Lease: one of an account, of other
	// accounts than the busy ones, those served longest ago first.
	TakeTurns(ctx context.Context, busy []ids.AccountID, limit int) ([]Turn, error)
	// EndTurn stores what follows from a turn. It does nothing if the lease is another's.
	EndTurn(ctx context.Context, t Turn, r Result) (Next, error)
}

// Deliverer sends what is due. Every replica has one.
type Deliverer struct {
	Queue Queue
	Send  func(context.Context, Turn) (Result, error)
	Log   *slog.Logger
	// Observe counts a try, and Dropped events without room.
	Observe func(Result)
	Dropped func(n int)

	wake  chan struct{}
	mu    sync.Mutex
	busy  map[ids.AccountID]int
	sends int
}

// NewDeliverer returns a deliverer, whose exported fields are the caller's to fill.
func NewDeliverer() *Deliverer {
	return &Deliverer{wake: make(chan struct{}, 1), busy: map[ids.AccountID]int{}}
}

// Wake begins the next look at once.
func (d *Deliverer) Wake() {
	select {
	case d.wake <- struct{}{}:
	default: // it is awake
	}
}

// Run sends until ctx ends. Then the messages under way have SendTimeout to end.
func (d *Deliverer) Run(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	timer := time.NewTicker(lookInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		more, err := d.look(ctx, &under)
		if err != nil && ctx.Err() == nil {
			d.Log.WarnContext(ctx, "webhooks could not be sent", "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// look hands events out and begins what is due. more reports whether there may be more to do
// at once.
func (d *Deliverer) look(ctx context.Context, under *sync.WaitGroup) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	dropped, more, err := d.Queue.FanOut(ctx, FanBatch)
	if dropped > 0 {
		d.Dropped(dropped)
	}
	if err != nil {
		return false, err
	}
	full, room := d.room()
	if room == 0 {
		return false, nil // the end of a message wakes
	}
	turns, err := d.Queue.TakeTurns(ctx, full, room)
	if err != nil {
		return false, err
	}
	for _, t := range turns {
		d.begin(t.Account, 1)
		under.Go(func() {
			defer d.Wake()
			defer d.begin(t.Account, -1)
			d.deliver(context.WithoutCancel(ctx), t)
		})
	}
	return more || len(turns) > 0, nil
}

// room returns the accounts that have as many messages under way as they may, and how many
// more the process may have.
func (d *Deliverer) room() (full []ids.AccountID, room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for account, n := range d.busy {
		if n >= MaxOfAccount {
			full = append(full, account)
		}
	}
	return full, MaxSends - d.sends
}

func (d *Deliverer) begin(account ids.AccountID, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sends += n
	if d.busy[account] += n; d.busy[account] == 0 {
		delete(d.busy, account)
	}
}

// deliver makes one try and stores what follows. A process that dies in between has sent a
// message that is sent again.
func (d *Deliverer) deliver(ctx context.Context, t Turn) {
	r, err := d.Send(ctx, t)
	if err != nil {
		// It is ours to mend, and counts for a failure of the endpoint only after days.
		r.Problem = Connection
	} else {
		d.Observe(r)
	}
	crash.At("billing.webhook.sent")
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	next, stored := d.Queue.EndTurn(ctx, t, r)
	if err = errors.Join(err, stored); err != nil {
		d.Log.ErrorContext(ctx, "a webhook's turn went wrong", "webhook_id", t.Endpoint.String(), "error", err)
	}
	if next.Note != Enabled {
		d.Log.InfoContext(ctx, "a webhook has ended", "webhook_id", t.Endpoint.String(), "note", string(next.Note))
	}
}
