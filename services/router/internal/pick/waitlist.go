package pick

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fault"
)

// Waitlist wakes the requests that wait for a slot of a model. Those with priority wake first
// and look again; once all of them have looked, the others wake. Among equals the first to look
// is served first.
type Waitlist struct {
	waiting atomic.Int64

	mu      sync.Mutex
	byModel map[string]*waiters
}

// waiters are the requests that wait for one model.
type waiters struct {
	woken, first chan struct{}
	n            int
	// ahead is how many of them have priority, and unlooked how many of these have not looked since
	// they were woken. The others sleep meanwhile.
	ahead, unlooked int
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
	r := b.byModel[model]
	if r == nil {
		return
	}
	if r.ahead == 0 {
		r.wakeOthers()
		return
	}
	r.unlooked = r.ahead
	close(r.first)
	r.first = make(chan struct{})
}

func (r *waiters) wakeOthers() {
	close(r.woken)
	r.woken = make(chan struct{})
}

// looked notes that one with priority has looked, or has left.
func (r *waiters) looked() {
	if r.unlooked == 0 {
		return
	}
	if r.unlooked--; r.unlooked == 0 {
		r.wakeOthers()
	}
}

// Waiting returns how many requests wait now.
func (b *Waitlist) Waiting() int { return int(b.waiting.Load()) }

// enter adds a waiter and reports whether there was room.
func (b *Waitlist) enter(model string, priority bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Load() >= MaxWaiters {
		return false
	}
	b.waiting.Add(1)
	r := b.byModel[model]
	if r == nil {
		r = &waiters{woken: make(chan struct{}), first: make(chan struct{})}
		b.byModel[model] = r
	}
	r.n++
	if priority {
		r.ahead++
	}
	return true
}

func (b *Waitlist) leave(model string, priority bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Add(-1)
	r := b.byModel[model]
	if priority {
		r.ahead--
		r.looked()
	}
	if r.n--; r.n == 0 {
		delete(b.byModel, model)
	}
}

// next returns a channel that is closed when the model is woken.
func (b *Waitlist) next(model string, priority bool) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if priority {
		return b.byModel[model].first
	}
	return b.byModel[model].woken
}

// looked notes that a waiter with priority looked in vain after it was woken.
func (b *Waitlist) looked(model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byModel[model].looked()
}

// await looks for a choice. While all are busy it looks again each time the model is
// woken, until MaxWait is over or the caller's deadline is near. It tells the last look
// that it is the last. It returns providers_busy where all looks were in vain.
func (p *Picker) await(ctx context.Context, req *Request, look func(last bool) (Choice, error)) (Choice, error) {
	choice, err := look(false)
	if !errors.Is(err, errBusy) {
		return choice, err
	}
	waitlist := p.deps.Waitlist
	if !waitlist.enter(req.Model, req.Priority) {
		return lastLook(look)
	}
	defer waitlist.leave(req.Model, req.Priority)
	timer := time.NewTimer(patience(ctx))
	defer timer.Stop()
	for woke := false; ; woke = true {
		// The channel is taken before the look, so that no wake-up is missed.
		woken := waitlist.next(req.Model, req.Priority)
		choice, err := look(false)
		if !errors.Is(err, errBusy) {
			return choice, err
		}
		if woke && req.Priority {
			waitlist.looked(req.Model)
		}
		select {
		case <-woken:
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

// patience returns how long this caller can wait.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(MaxWait, max(time.Until(deadline)-answerMargin, 0))
	}
	return MaxWait
}
