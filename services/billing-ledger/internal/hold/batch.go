package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Config of the group commit.
type Config struct {
	// Batch bounds the reservations of one transaction.
	Batch int
	// Writers is the number of transactions that may be under way at once. The requests
	// of one key always have the same writer, because they wait for the same wallet.
	Writers int
	// Queue bounds the reservations that wait; the writers share it equally.
	Queue int
	// Timeout bounds the decision of one batch.
	Timeout time.Duration
}

// Decider decides reservations and returns one decision for each, in order. An error fails all
// of them, although some may have been admitted by then.
type Decider interface {
	Admit(ctx context.Context, reservations []Reservation) ([]Decision, error)
}

// batcher is the group commit. Each of its writers empties a bounded queue.
type batcher struct {
	cfg     Config
	store   Decider
	observe func(Outcome, int)
	queues  []chan *ticket

	// mu guards open. A caller holds it for reading while it queues its ticket, so that
	// no ticket is left behind when run ends.
	mu   sync.RWMutex
	open bool
}

// ticket is one caller that waits. answered has room for the one answer, so that a writer
// never waits for a caller that left.
type ticket struct {
	ctx         context.Context
	reservation Reservation
	answered    chan answer
}

type answer struct {
	decision Decision
	err      error
}

func newBatcher(cfg Config, store Decider, observe func(Outcome, int)) *batcher {
	b := &batcher{cfg: cfg, store: store, observe: observe, queues: make([]chan *ticket, cfg.Writers)}
	for i := range b.queues {
		b.queues[i] = make(chan *ticket, (cfg.Queue+cfg.Writers-1)/cfg.Writers)
	}
	return b
}

// queueOfLocked returns the queue of a key, which is always the same one. The last byte
// of a key's id is random.
func (b *batcher) queueOfLocked(key ids.KeyID) chan *ticket {
	return b.queues[int(key[len(key)-1])%len(b.queues)]
}

func (b *batcher) waiting() (n int) {
	for _, queue := range b.queues {
		n += len(queue)
	}
	return n
}

func unavailable(format string, args ...any) *fault.Fault {
	return fault.New(fault.Unavailable, fault.AdmissionUnavailable, format, args...).After(time.Second)
}

// decide queues c and waits for its decision.
func (b *batcher) decide(ctx context.Context, c Reservation) (Decision, error) {
	t := &ticket{ctx: ctx, reservation: c, answered: make(chan answer, 1)}
	if err := b.enqueue(t); err != nil {
		return Decision{}, err
	}
	select {
	case a := <-t.answered:
		return a.decision, a.err
	case <-ctx.Done():
		return Decision{}, fmt.Errorf("wait for admission: %w", context.Cause(ctx))
	}
}

func (b *batcher) enqueue(t *ticket) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if !b.open {
		return unavailable("admission is not running")
	}
	select {
	case b.queueOfLocked(t.reservation.Key) <- t:
		return nil
	default:
		return unavailable("too many requests wait for admission")
	}
}

func (b *batcher) run(ctx context.Context) {
	b.setOpen(true)
	var writers sync.WaitGroup
	for _, queue := range b.queues {
		writers.Go(func() { b.write(ctx, queue) })
	}
	<-ctx.Done()
	b.setOpen(false)
	writers.Wait()
	for _, queue := range b.queues {
		for len(queue) > 0 {
			t := <-queue
			t.answered <- answer{err: unavailable("admission is stopping")}
		}
	}
}

func (b *batcher) setOpen(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = open
}

func (b *batcher) isOpen() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.open
}

func (b *batcher) write(ctx context.Context, queue chan *ticket) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-queue:
			b.commit(ctx, b.collect(queue, first))
		}
	}
}

// collect takes the tickets that wait by now. It drops callers that have left, because
// nothing is held for them yet.
func (b *batcher) collect(queue chan *ticket, first *ticket) []*ticket {
	batch := make([]*ticket, 0, min(b.cfg.Batch, len(queue)+1))
	for t := first; ; {
		if t.ctx.Err() == nil {
			batch = append(batch, t)
		}
		if len(batch) == b.cfg.Batch {
			return batch
		}
		select {
		case t = <-queue:
		default:
			return batch
		}
	}
}

// commit decides a batch under a deadline of its own. A caller that leaves takes nothing
// away from the others, and neither does a service that stops.
func (b *batcher) commit(ctx context.Context, batch []*ticket) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.cfg.Timeout)
	defer cancel()
	b.decideBatch(ctx, batch)
}

// decideBatch decides a batch. When it meets open slices, no caller gets a decision yet: the callers whose accounts
// have slices get an error that names the slice, and the batch of the other callers is decided once more.
func (b *batcher) decideBatch(ctx context.Context, batch []*ticket) {
	decisions, err := b.ask(ctx, batch)
	if met, ok := errors.AsType[SlicesOpen](err); ok {
		rest := slices.DeleteFunc(slices.Clone(batch), func(t *ticket) bool {
			open, has := met.Of[t.reservation.Key]
			if has {
				b.answer([]*ticket{t}, nil, open)
			}
			return has
		})
		if len(rest) < len(batch) {
			if len(rest) > 0 {
				b.decideBatch(ctx, rest)
			}
			return
		}
	}
	b.halve(ctx, batch, decisions, err)
}

// halve answers a batch, unless its error names an open slice that no key of the batch is known to have: the slice
// was closed before the store read it, or the store could not read. Then each half of the batch's keys is decided
// by itself.
func (b *batcher) halve(ctx context.Context, batch []*ticket, decisions []Decision, err error) {
	var keys [][]*ticket
	if _, ok := AsSliceOpen(err); ok {
		keys = byKey(batch)
	}
	if len(keys) < 2 {
		b.answer(batch, decisions, err)
		return
	}
	half := len(keys) / 2
	b.decideBatch(ctx, slices.Concat(keys[:half]...))
	b.decideBatch(ctx, slices.Concat(keys[half:]...))
}

// byKey returns the tickets of each key.
func byKey(batch []*ticket) [][]*ticket {
	place := map[ids.KeyID]int{}
	var all [][]*ticket
	for _, t := range batch {
		i, seen := place[t.reservation.Key]
		if !seen {
			i = len(all)
			place[t.reservation.Key] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], t)
	}
	return all
}

// ask has the store decide.
func (b *batcher) ask(ctx context.Context, batch []*ticket) ([]Decision, error) {
	reservations := make([]Reservation, len(batch))
	for i, t := range batch {
		reservations[i] = t.reservation
	}
	decisions, err := b.store.Admit(ctx, reservations)
	if err == nil && len(decisions) != len(batch) {
		err = fmt.Errorf("store answered %d of %d reservations", len(decisions), len(batch))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.Wrap(err, fault.Unavailable, fault.AdmissionUnavailable, "the store does not answer in time").After(
			time.Second)
	}
	return decisions, err
}

// answer hands each caller of a batch its decision, or the error of all.
func (b *batcher) answer(batch []*ticket, decisions []Decision, err error) {
	counts := map[Outcome]int{}
	for i, t := range batch {
		if err != nil {
			t.answered <- answer{err: fmt.Errorf("admit a batch of %d: %w", len(batch), err)}
			continue
		}
		counts[decisions[i].Outcome]++
		t.answered <- answer{decision: decisions[i]}
	}
	for outcome, n := range counts {
		b.observe(outcome, n)
	}
}
