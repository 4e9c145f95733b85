package pick

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fault"
)

// Waitlist wakes those who wait for a slot of a model. All waiters of the model
// wake and look again; who looks first is served first.
type Waitlist struct {
	waiting atomic.Int64

	mu      sync.Mutex
	byModel map[string]*waiters
}

// waiters is the waiters of one model.
type waiters struct {
	ring chan struct{}
	n    int
}

// NewWaitlist returns a waitlist on which nobody waits.
func NewWaitlist() *Waitlist { return &Waitlist{byModel: map[string]*waiters{}} }

// Wake wakes the waiters of a model.
func (b *Waitlist) Wake(model string) {
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.byModel[model]; r != nil {
		close(r.ring)
		r.ring = make(chan struct{})
	}
}

// Waiting is how many wait now.
func (b *Waitlist) Waiting() int { return int(b.waiting.Load()) }

// enter adds a waiter unless there are too many.
func (b *Waitlist) enter(model string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Load() >= MaxWaiters {
		return false
	}
	b.waiting.Add(1)
	r := b.byModel[model]
	if r == nil {
		r = &waiters{ring: make(chan struct{})}
		b.byModel[model] = r
	}
	r.n++
	return true
}

func (b *Waitlist) leave(model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(-1)
	r := b.byModel[model]
	if r.n--; r.n == 0 {
		delete(b.byModel, model)
	}
}

// next is closed at the next ring.
func (b *Waitlist) next(model string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byModel[model].ring
}

// await looks, and while that finds everybody busy it looks again at each ring
// until MaxWait is over or the caller's deadline is near. The last look is told
// so. It returns providers_busy when all were in vain.
func (p *Picker) await(ctx context.Context, model string, look func(last bool) (Choice, error)) (Choice, error) {
	choice, err := look(false)
	if !errors.Is(err, errBusy) {
		return choice, err
	}
	waitlist := p.deps.Waitlist
	if !waitlist.enter(model) {
		return lastLook(look)
	}
	defer waitlist.leave(model)
	timer := time.NewTimer(patience(ctx))
	defer timer.Stop()
	for {
		// The ring is taken before the look, so that none is missed.
		ring := waitlist.next(model)
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
