// Package events carries what happens on a hub to the rest of the fleet over NATS: usage,
// ended attempts and presence. It also receives what billing-ledger has settled.
//
// Only usage must arrive. The journal is its source: a usage event is published after its
// FINAL is on disk, and again, ever more rarely, until billing-ledger says that it is
// settled. Settlement does not matter for that, because a settlement that stands still
// must not fill the journal of every hub, and it takes from billing-ledger what it never
// received. Attempts and presence may be lost.
//
// The fact that an attempt is void, where nobody else may know it, is kept in the journal
// too, until JetStream has taken it (see voids.go).
//
// Bounds: 4,096 usage events and 4,096 attempts wait to be published. Usage that finds no
// room is left to the next sweep; attempts are dropped and counted. A sweep begins with
// usage that is 30 s old (see DefaultResettle). A usage event is repeated at most that
// often and at least every 10 minutes, in batches of 256. Usage that is published within
// 50 ms goes as bundles of at most 64 events and 60 KiB. A batch of attempts is at most
// 256 or 50 ms old, a part of a presence report at most 500 sessions or about 512 KiB.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/meter"
)

const (
	usageQueue = 4096
	usageBatch = 256
	// gatherTime is the least time between two publications of usage that was just served.
	// gatherTime is within the 100 ms for which billing-ledger gathers usage. Each message costs a delivery and an
	// acknowledgement for each of three consumers, however many events it has.
	gatherTime = 50 * time.Millisecond
	// publishTime bounds a batch, and flushTime all batches when the hub stops.
	publishTime = 10 * time.Second
	flushTime   = 5 * time.Second

	// DefaultResettle is how long usage may stay unsettled before it is published again.
	// A sweep looks for such usage sweeps times as often.
	DefaultResettle = 30 * time.Second
	sweeps          = 6
	maxResettle     = 10 * time.Minute
)

// publication is how often a usage event was published again.
type publication struct {
	times int
	next  time.Time
	// traceparent is the trace of the usage, as long as this process lives. The journal
	// does not keep it.
	traceparent string
}

// waiting is a usage event on its way to its first publication.
type waiting struct {
	key         journal.Key // set when it is published again
	id          string
	at          time.Time // when it was final; zero when it is published again
	payload     []byte
	traceparent string
}

// Usage keeps attempts in the journal until their usage is settled. It implements
// dispatch.UsageJournal.
type Usage struct {
	hubID    string
	bus      Bus
	resettle time.Duration
	clock    clock.Clock
	log      *slog.Logger
	keys     *Keys // nil where nobody checks seals
	onClosed func([]journal.Key)
	lag      func(time.Duration)

	journal atomic.Pointer[journal.Journal]
	opened  time.Time // an older record is of an earlier process
	queue   chan waiting
	// For the loop of usage only: whether the stream was ensured, and when usage was
	// published last.
	ensured   bool
	published time.Time

	voidQueue    chan waiting
	voidsEnsured bool // like ensured, for the stream of receipts and the loop of voids
	voidsLost    atomic.Int64

	mu      sync.Mutex
	pending map[journal.Key]*publication
	voids   map[journal.Key]struct{} // their VoidEvent is in the journal
	closed  recent
}

// UsageDeps are what Usage works with. Clock and Log are required.
type UsageDeps struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Keys seal usage; nil where nobody checks seals.
	Keys *Keys
	// Closed is called for attempts that need no work receipt any more. It must not
	// block; nil where nobody waits for them.
	Closed func([]journal.Key)
	// Lag is called with the age of usage when it is published for the first time; nil
	// where nobody measures it.
	Lag func(time.Duration)
}

// NewUsage returns a Usage without a journal. Usage that is unsettled for resettle is
// published again; 0 means DefaultResettle.
func NewUsage(hubID string, conn Bus, resettle time.Duration, deps UsageDeps) *Usage {
	if deps.Closed == nil {
		deps.Closed = func([]journal.Key) {}
	}
	if deps.Lag == nil {
		deps.Lag = func(time.Duration) {}
	}
	if resettle == 0 {
		resettle = DefaultResettle
	}
	return &Usage{
		hubID: hubID, bus: conn, resettle: resettle, clock: deps.Clock, log: deps.Log,
		keys: deps.Keys, onClosed: deps.Closed, lag: deps.Lag,
		queue: make(chan waiting, usageQueue), pending: map[journal.Key]*publication{},
		voidQueue: make(chan waiting, usageQueue), voids: map[journal.Key]struct{}{},
	}
}

// Open opens the journal and ends what an earlier process left behind. An attempt that
// was committed and has no usage is billed by its last progress, without the prompt. An
// attempt that was not committed is void.
func (u *Usage) Open(cfg journal.Config) error {
	u.opened = u.clock.Now()
	j, recovered, err := journal.Open(cfg)
	if err != nil {
		return err
	}
	u.journal.Store(j)
	if recovered.DamageTotal > 0 {
		u.log.Error("the journal is damaged", "ranges", recovered.DamageTotal)
	}
	if recovered.Unsettled > 0 || recovered.Unfinished > 0 {
		u.log.Info("the journal holds work of an earlier process", "unsettled", recovered.Unsettled, "unfinished",
			recovered.Unfinished)
	}
	for f, err := range recovered.Finals() {
		if err != nil {
			u.log.Error("usage in the journal cannot be read", "attempt", f.Key.String(), "error", err)
			continue
		}
		if isVoid(f.Payload) {
			u.voidFound(f.Key)
			continue
		}
		u.pending[f.Key] = &publication{}
	}
	for unfinished, err := range recovered.Dispatches() {
		if err := u.finish(j, unfinished, err); err != nil {
			return errors.Join(fmt.Errorf("recover attempt %v: %w", unfinished.Key, err), j.Close())
		}
	}
	return nil
}

// finish ends an attempt of an earlier process. Of an attempt that was not committed it
// publishes nothing: the dead process may have given content to a gateway that relayed
// it, and whose commit it did not live to read. A gateway that lives reports that, and
// otherwise the provider's work receipt does.
func (u *Usage) finish(j *journal.Journal, a journal.Unfinished, unreadable error) error {
	if unreadable != nil {
		u.log.Error("an attempt in the journal cannot be read and is not billed", "attempt", a.Key.String(), "error",
			unreadable)
		return j.Void(a.Key)
	}
	if !a.Committed {
		return j.Void(a.Key)
	}
	e := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(a.Payload, e); err != nil {
		u.log.Error("an attempt in the journal cannot be decoded and is not billed", "attempt", a.Key.String(), "error", err)
		return j.Void(a.Key)
	}
	tokens := int64(a.Progress.Tokens)
	served := meter.Served{
		// The progress was within the limits when it was noted.
		Ending: meter.PlatformLost, MaxOutput: tokens, Choices: 1, Recount: tokens,
		DeliveredBytes: int64(a.Progress.Bytes), EstimatedPrompt: e.GetEstimatedPromptTokens(),
		Claim: meter.Claim{State: meter.Absent},
	}
	fill(e, served, meter.Charge(served))
	e.EndedAt = e.GetDispatchedAt()
	payload, err := encode(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	publish, err := u.keep(ctx, j, a.Key, e.GetRequestId(), payload, "")
	if err != nil {
		return err
	}
	publish()
	return nil
}

// Journal is the open journal, or nil.
func (u *Usage) Journal() *journal.Journal { return u.journal.Load() }

// Ready says why no new attempts can be journalled; nil when they can.
func (u *Usage) Ready() error {
	j := u.journal.Load()
	if j == nil {
		return errors.New("the journal is not open yet")
	}
	if err := j.Err(); err != nil {
		return fmt.Errorf("the journal has failed: %w", err)
	}
	return nil
}

// Close closes the journal.
func (u *Usage) Close() error {
	j := u.journal.Load()
	if j == nil {
		return nil
	}
	return j.Close()
}

func keyOf(o *dispatch.Order) journal.Key {
	return journal.Key{Request: o.Request, Attempt: o.Attempt}
}

// Dispatched implements dispatch.UsageJournal.
func (u *Usage) Dispatched(o *dispatch.Order, at time.Time) error {
	payload, err := encode(dispatched(u.hubID, o, at))
	if err != nil {
		return err
	}
	err = u.journal.Load().Dispatch(keyOf(o), payload)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrSpace):
		return fault.Wrap(err, fault.Unavailable, fault.JournalFull, "this hub's disk has no room")
	case errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrBusy):
		return fault.Wrap(err, fault.Unavailable, fault.JournalFull, "this hub has too much that is not settled")
	case errors.Is(err, journal.ErrDuplicate):
		return fault.New(fault.Invalid, fault.InvalidRequest, "this attempt was dispatched before").On("attempt")
	default:
		return fault.Wrap(err, fault.Unavailable, fault.HubDraining, "this hub cannot keep a journal")
	}
}

// Committed implements dispatch.UsageJournal.
func (u *Usage) Committed(o *dispatch.Order) error { return u.journal.Load().Commit(keyOf(o)) }

// Progress implements dispatch.UsageJournal.
func (u *Usage) Progress(o *dispatch.Order, tokens, bytes int64) error {
	return u.journal.Load().Progress(keyOf(o), journal.Progress{Tokens: uint64(tokens), Bytes: uint64(bytes)})
}

// Void implements dispatch.UsageJournal.
func (u *Usage) Void(o *dispatch.Order) error {
	err := u.journal.Load().Void(keyOf(o))
	if err == nil {
		u.close(keyOf(o))
	}
	return err
}

// Final implements dispatch.UsageJournal.
func (u *Usage) Final(ctx context.Context, usage *dispatch.Usage) (publish func(), err error) {
	payload, err := final(u.hubID, usage)
	if err != nil {
		return nil, err
	}
	o := usage.Order
	return u.keep(ctx, u.journal.Load(), keyOf(o), o.Request.String(), payload, o.Traceparent)
}

// keep puts usage on disk. publish puts it in the queue. Usage that finds no room there
// is published by the sweep.
func (u *Usage) keep(
	ctx context.Context, j *journal.Journal, key journal.Key, id string, payload []byte, traceparent string,
) (publish func(), err error) {
	u.mu.Lock()
	u.pending[key] = &publication{traceparent: traceparent}
	u.mu.Unlock()
	if err := j.Final(ctx, key, payload); err != nil {
		// A record for which ctx was too short may still reach the disk, and the sweep
		// finds it there.
		if ctx.Err() == nil {
			u.mu.Lock()
			delete(u.pending, key)
			u.mu.Unlock()
		}
		return nil, err
	}
	w := waiting{id: id, at: u.clock.Now(), payload: payload, traceparent: traceparent}
	return func() {
		select {
		case u.queue <- w:
		default:
		}
	}, nil
}

// Settled removes from the journal what billing-ledger has settled. Unknown requests are
// ignored.
func (u *Usage) Settled(requests []ids.RequestID) error {
	var keys []journal.Key
	u.mu.Lock()
	for _, id := range requests {
		// The notice has no number of the attempt, and needs none, because at most one
		// attempt was committed.
		for attempt := uint32(1); attempt <= dispatch.MaxAttempt; attempt++ {
			key := journal.Key{Request: id, Attempt: attempt}
			if u.pending[key] != nil {
				keys = append(keys, key)
				delete(u.pending, key)
			}
		}
	}
	u.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	u.close(keys...)
	defer crash.At("hub.settled.marked")
	return u.journal.Load().Settled(keys...)
}

// Unsettled is how much usage waits to be settled.
func (u *Usage) Unsettled() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.pending)
}
