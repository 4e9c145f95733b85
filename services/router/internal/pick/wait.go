package pick

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fault"
)

// Bell wakes those who wait for a slot of a model. All waiters of the model
// wake and look again; who looks first is served first.
type Bell struct {
	waiting atomic.Int64

	mu    sync.Mutex
	rooms map[string]*room
}

// room is the waiters of one model.
type room struct {
	ring    chan struct{}
	waiters int
}

// NewBell is a bell nobody waits for.
func NewBell() *Bell { return &Bell{rooms: map[string]*room{}} }

// Ring wakes the waiters of a model.
func (b *Bell) Ring(model string) {
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rooms[model]; r != nil {
		close(r.ring)
		r.ring = make(chan struct{})
	}
}

// Waiting is how many wait now.
func (b *Bell) Waiting() int { return int(b.waiting.Load()) }

// enter adds a waiter unless there are too many.
func (b *Bell) enter(model string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Load() >= MaxWaiters {
		return false
	}
	b.waiting.Add(1)
	r := b.rooms[model]
	if r == nil {
		r = &room{ring: make(chan struct{})}
		b.rooms[model] = r
	}
	r.waiters++
	return true
}

func (b *Bell) leave(model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(-1)
	r := b.rooms[model]
	if r.waiters--; r.waiters == 0 {
		delete(b.rooms, model)
	}
}

// next is closed at the next ring.
func (b *Bell) next(model string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rooms[model].ring
}

// await looks, and while that finds everybody busy it looks again at each ring
// until MaxWait is over or the caller's deadline is near. The last look is told
// so. It returns providers_busy when all were in vain.
func (p *Picker) await(ctx context.Context, model string, look func(last bool) (Choice, error)) (Choice, error) {
	choice, err := look(false)
	if !errors.Is(err, errBusy) {
		return choice, err
	}
	bell := p.deps.Bell
	if !bell.enter(model) {
		return lastLook(look)
	}
	defer bell.leave(model)
	timer := time.NewTimer(patience(ctx))
	defer timer.Stop()
	for {
		// The ring is taken before the look, so that none is missed.
		ring := bell.next(model)
		choice, err := look(false)
		if !errors.Is(err, errBusy) {
			return choice, err
		}
		select {
		case <-ring:
		case <-timer.C:
			return lastLook(look)
		case <-ctx.Done():
			return Choice{}, fault.Wrap(ctx.Err(), fault.Canceled, fault.ClientClosed, "the caller went away")
		}
	}
}

func lastLook(look func(bool) (Choice, error)) (Choice, error) {
	choice, err := look(true)
	if errors.Is(err, errBusy) {
		return Choice{}, allBusy()
	}
	return choice, err
}

// patience is how long this caller can wait.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(MaxWait, max(time.Until(deadline)-answerMargin, 0))
	}
	return MaxWait
}
