package slice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/clock"
)

const (
	// maxBackoff bounds the pause after failed transactions.
	maxBackoff = time.Second
	// trial bounds a transaction with slices whose last turn failed, while others succeed. It is much less
	// than Trust, because the others wait for it: one that cannot be written must not cost them their trust.
	trial = 300 * time.Millisecond
)

// runner is the one goroutine that takes turns.
type runner struct {
	*Slices
	// limit bounds the slices of the next transaction with slices whose last turns failed. It falls while such
	// transactions fail, so that a slice that cannot be written is soon alone in its transaction.
	limit int
	// failing counts the failed transactions of several slices since the last success. Until rest no turn is
	// taken.
	failing int
	rest    time.Time
}

// Run takes turns until ctx ends. Then it closes all slices within Config.StopTimeout.
func (s *Slices) Run(ctx context.Context) {
	r := &runner{Slices: s, limit: s.cfg.Batch}
	s.setRunning(true)
	ticker := time.NewTicker(Every)
	defer ticker.Stop()
	// A turn whose context ends may be committed, so the end of Run's context does not end it.
	work := context.WithoutCancel(ctx)
	stopped := false
	for ctx.Err() == nil {
		if !stopped && s.none() { // no turn is due before there is a slice
			ticker.Stop()
			stopped = true
		}
		select {
		case <-ctx.Done():
		case <-s.begun:
			if stopped { // a ticker that runs is left alone, because each new account would put the next turn off
				ticker.Reset(Every)
				stopped = false
			}
		case <-ticker.C:
			r.pass(work, s.dueNow())
		case <-s.alarm:
			r.pass(work, s.urgentNow())
		}
	}
	s.setRunning(false)
	r.stop(work)
}

// none reports whether there is no slice.
func (s *Slices) none() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.accounts) == 0
}

func (s *Slices) setRunning(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
}

// dueNow returns the accounts that need a turn.
func (s *Slices) dueNow() []*account {
	now := s.deps.Clock.Now()
	all := s.all()
	due := all[:0]
	for _, a := range all {
		if a.due(now) {
			due = append(due, a)
		}
	}
	return due
}

func (s *Slices) all() []*account {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*account, 0, len(s.accounts))
	for _, a := range s.accounts {
		all = append(all, a)
	}
	return all
}

// urgentNow returns the accounts that need a turn at once, and forgets that they do.
func (s *Slices) urgentNow() []*account {
	s.mu.Lock()
	defer s.mu.Unlock()
	urgent := make([]*account, 0, len(s.urgent))
	for a := range s.urgent {
		urgent = append(urgent, a)
	}
	clear(s.urgent)
	return urgent
}

// pass takes turns of accounts, a transaction after the other. It ends at a failure. Accounts whose last turns
// failed come last, and in transactions of their own, so that they keep no other from its turn.
func (r *runner) pass(ctx context.Context, due []*account) {
	now := r.deps.Clock.Now()
	if now.Before(r.rest) {
		return
	}
	var sound, suspect []*account
	for _, a := range due {
		switch {
		case a.failing == 0:
			sound = append(sound, a)
		case !now.Before(a.again):
			suspect = append(suspect, a)
		}
	}
	slices.SortFunc(suspect, func(a, b *account) int { return cmp.Compare(a.failing, b.failing) })
	timeout := r.cfg.Timeout
	if len(sound) > 0 {
		timeout = min(timeout, trial)
	}
	for len(sound) > 0 && ctx.Err() == nil {
		n := min(r.cfg.Batch, len(sound))
		if !r.transact(ctx, sound[:n], r.cfg.Timeout) {
			return
		}
		sound = sound[n:]
	}
	for len(suspect) > 0 && ctx.Err() == nil {
		n := min(r.limit, len(suspect))
		if !r.transact(ctx, suspect[:n], timeout) {
			return
		}
		suspect = suspect[n:]
	}
}

// transact takes one turn of each account in one transaction. It returns false when that failed.
func (r *runner) transact(ctx context.Context, due []*account, timeout time.Duration) bool {
	began := r.deps.Clock.Now()
	turns, taken, pins := make([]Turn, 0, len(due)), make([]*account, 0, len(due)), 0
	for _, a := range due {
		if t, ok := a.take(began); ok {
			turns, taken = append(turns, t), append(taken, a)
			pins += len(t.Pins)
		}
	}
	if len(turns) == 0 {
		return true
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	states, err := r.deps.Keeper.Turn(call, r.cfg.Owner, turns)
	cancel()
	arrived := r.deps.Clock.Now()
	if err == nil && len(states) != len(turns) {
		err = fmt.Errorf("the store answered %d of %d turns", len(states), len(turns))
	}
	r.deps.Observe(Turned{Slices: len(turns), Pins: pins, Took: arrived.Sub(began), Err: err})
	if err != nil {
		r.failed(ctx, taken, err, arrived)
		return false
	}
	recovered := 0
	for i, a := range taken {
		if a.failing > 0 {
			recovered++
		}
		r.answered(a, states[i], began, arrived)
	}
	r.failing, r.rest = 0, time.Time{}
	if recovered > 0 {
		r.deps.Log.InfoContext(ctx, "turns of slices succeed again", "slices", recovered)
		r.limit = min(2*r.limit, r.cfg.Batch)
	}
	return true
}

func (r *runner) failed(ctx context.Context, taken []*account, err error, now time.Time) {
	fresh := 0
	for _, a := range taken {
		if a.failing++; a.failing == 1 {
			fresh++
		}
		a.fail(err)
	}
	if fresh > 0 {
		r.deps.Log.WarnContext(ctx, "turns of slices failed", "slices", fresh, "error", err)
	}
	if a := taken[0]; len(taken) == 1 {
		a.again = now.Add(min(Every<<min(a.failing-1, 8), maxBackoff))
		return
	}
	r.failing++
	r.limit = max(min(r.limit, len(taken))/4, 1)
	r.rest = now.Add(min(Every<<min(r.failing-1, 8), maxBackoff))
}

// answered hands an account its state.
func (r *runner) answered(a *account, st State, began, arrived time.Time) {
	a.failing, a.again = 0, time.Time{}
	t := a.answer(st, began, arrived)
	r.unwritten.Add(-int64(t.written))
	if t.keys != nil {
		r.index(a, t.keys)
	}
	if st.Recalled {
		r.seen.deny(a.id, minPause, arrived)
	}
	if t.unfinished {
		r.ask(a)
	}
	if !t.over {
		return
	}
	switch {
	case t.late.After(arrived):
		// A turn for any slice of the account would meet the next one.
		r.seen.deny(a.id, t.late.Sub(arrived), arrived)
	case !t.closing && !st.Plain:
		r.seen.deny(a.id, notPlainFor, arrived)
	case !t.closing:
		r.seen.deny(a.id, minPause, arrived)
	}
	r.forget(a)
}

// stop closes all slices. What is not closed in time is left to whoever finds it: its requests have
// tickets.
func (r *runner) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StopTimeout)
	defer cancel()
	for {
		all := r.all()
		for _, a := range all {
			if a.recall().after == gone {
				r.forget(a)
			}
		}
		if all = r.all(); len(all) == 0 {
			return
		}
		r.pass(ctx, all)
		if wait := r.wait(all); ctx.Err() != nil || wait > 0 && clock.Sleep(ctx, wait) != nil {
			break
		}
	}
	left := r.all()
	for _, a := range left {
		r.unwritten.Add(-int64(a.abandon()))
		r.forget(a)
	}
	if len(left) > 0 {
		r.deps.Log.WarnContext(ctx, "slices could not be closed in time", "slices", len(left))
	}
}

// wait returns how long no turn of the accounts is tried.
func (r *runner) wait(all []*account) time.Duration {
	first := all[0].again
	for _, a := range all {
		if a.again.Before(first) {
			first = a.again
		}
	}
	return max(later(first, r.rest).Sub(r.deps.Clock.Now()), 0)
}
