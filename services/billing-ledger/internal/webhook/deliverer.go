package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
)

const (
	// MaxSends bounds the messages that a process has under way.
	MaxSends = 32
	// MaxOfAccount bounds those of one account.
	MaxOfAccount = 2
	// MaxToFailing bounds those to endpoints whose last try failed. The other places are for
	// endpoints that answer, however many do not.
	MaxToFailing = MaxSends / 2
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
	// TakeTurns takes endpoints that are due, for Lease, as many as there is room for: one of an
	// account, those served longest ago first.
	TakeTurns(ctx context.Context, room Room) ([]Turn, error)
	// EndTurn stores what follows from a turn. It does nothing if the lease is another's.
	EndTurn(ctx context.Context, t Turn, r Result) (Next, error)
}

// Room is for how many more messages a process has places.
type Room struct {
	// Full are the accounts that have as many under way as they may.
	Full []ids.AccountID
	// All are the places, of which Failing are for endpoints whose last try failed.
	All, Failing int
}

// Deliverer sends what is due. Every replica has one.
type Deliverer struct {
	Queue Queue
	Send  func(context.Context, Turn) (Result, error)
	Log   *slog.Logger
	// Observe counts a try, and Dropped events without room.
	Observe func(Result)
	Dropped func(n int)
	// Still leaves out looks that would find nothing.
	Still *clock.Still

	wake    chan struct{}
	mu      sync.Mutex
	busy    map[ids.AccountID]int
	sends   int
	failing int // of sends, those to endpoints whose last try failed
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
		if d.Still.Learn(err) != nil && ctx.Err() == nil {
			d.Log.WarnContext(ctx, "webhooks could not be sent", "error", err)
		}
		if more && err == nil {
			continue
		}
		clock.Next(ctx, timer.C, d.wake, d.Still)
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
	room := d.room()
	if room.All == 0 {
		return false, nil // the end of a message wakes
	}
	turns, err := d.Queue.TakeTurns(ctx, room)
	if err != nil {
		return false, err
	}
	for _, t := range turns {
		d.begin(t, 1)
		under.Go(func() {
			defer d.Wake()
			defer d.begin(t, -1)
			d.deliver(context.WithoutCancel(ctx), t)
		})
	}
	return more || len(turns) > 0, nil
}

// room returns for how many more messages the process has places.
func (d *Deliverer) room() Room {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := Room{All: MaxSends - d.sends, Failing: MaxToFailing - d.failing}
	for account, n := range d.busy {
		if n >= MaxOfAccount {
			r.Full = append(r.Full, account)
		}
	}
	return r
}

// begin counts n messages of a turn as under way, or ended where n is negative.
func (d *Deliverer) begin(t Turn, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sends += n
	if t.Failing {
		d.failing += n
	}
	if d.busy[t.Account] += n; d.busy[t.Account] == 0 {
		delete(d.busy, t.Account)
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
