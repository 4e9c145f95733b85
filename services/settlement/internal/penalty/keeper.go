package penalty

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// MaxBatch bounds the penalties of one call of ExecuteDue.
const MaxBatch = 100

// Store keeps penalties. Its clock is the database's.
type Store interface {
	// Open records a penalty with its first entry. Where the id stands already, fresh is
	// false, and the penalty is returned as it stands. Otherwise admit sees which penalties
	// of the provider stand beside it: those that are open, and those executed since the
	// oldest open one was opened. No other penalty of the provider is opened meanwhile.
	// admit may be called again. Open fails as admit.
	Open(ctx context.Context, d Draft, admit func(beside []Penalty) error) (p Penalty, fresh bool, err error)
	// Change locks a penalty, has apply change it at a time, and records it with the
	// entry. A zero entry changes nothing. apply may be called again. It fails with
	// penalty_not_found, and as apply.
	Change(ctx context.Context, id ID, apply func(p *Penalty, now time.Time) (Entry, error)) (Penalty, Entry, error)
	// OfProvider and InState list penalties, newest first, and count all of them. An
	// empty state stands for all states.
	OfProvider(ctx context.Context, id ids.ProviderID, offset, limit int) ([]Penalty, int, error)
	InState(ctx context.Context, s State, offset, limit int) ([]Penalty, int, error)
	// Due lists penalties behind a place on which carryOut has something to do, those
	// that are due longest first.
	Due(ctx context.Context, behind Place, limit int) ([]Place, error)
	// Backlog counts what is not final.
	Backlog(ctx context.Context) (Backlog, error)
}

// Place is the place of a penalty that is due, in their order. The zero Place is before all.
type Place struct {
	Since time.Time
	ID    ID
}

// Backlog counts penalties that are not final.
type Backlog struct {
	// Open is the number of penalties in each state.
	Open map[State]int
	// Overdue is how many of them should have been executed.
	Overdue int
}

// Keeper moves penalties through their life.
type Keeper struct {
	store Store
	// announce is called after each change that is recorded.
	announce func(ctx context.Context, p Penalty)

	mu sync.Mutex
	// behind is where the next call of ExecuteDue goes on.
	behind Place
}

// NewKeeper makes a keeper that announces each change after its transaction. A process
// that dies in between has announced nothing.
func NewKeeper(store Store, announce func(ctx context.Context, p Penalty)) *Keeper {
	return &Keeper{store: store, announce: announce}
}

// Open opens a penalty. The same draft again changes nothing, and returns the penalty as
// it stands. It fails with invalid_value, with idempotency_key_reused for another draft of
// the same id, and with penalty_open and penalty_shares (see Draft.fits).
func (k *Keeper) Open(ctx context.Context, d Draft) (Penalty, error) {
	if err := d.check(); err != nil {
		return Penalty{}, err
	}
	p, fresh, err := k.store.Open(ctx, d, d.fits)
	switch {
	case err != nil:
		return Penalty{}, err
	case !p.same(d):
		return Penalty{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the id stands for a penalty with other content").On("penalty_id")
	case fresh:
		k.announce(ctx, p)
	}
	return p, nil
}

// Appeal records a provider's appeal. The first text stays. It fails with invalid_value,
// with penalty_not_found for a penalty that is not the provider's, and with
// transition_not_allowed when it is too late.
func (k *Keeper) Appeal(ctx context.Context, id ID, provider ids.ProviderID, text string) (Penalty, error) {
	if err := checkAppeal(text); err != nil {
		return Penalty{}, err
	}
	return k.change(ctx, id, func(p *Penalty, now time.Time) (Entry, error) { return p.appeal(provider, text, now) })
}

// AppealOnChain records an appeal that a depositor made on a chain, in the time that the
// chain gives. A penalty that is not proposed any more stays as it is.
func (k *Keeper) AppealOnChain(ctx context.Context, id ID, text string) (Penalty, error) {
	if err := checkAppeal(text); err != nil {
		return Penalty{}, err
	}
	return k.change(ctx, id, func(p *Penalty, now time.Time) (Entry, error) {
		if p.State != Proposed {
			return Entry{}, nil
		}
		return p.appealOnChain(text, now)
	})
}

// Resolve is an operator's decision: it upholds an appealed penalty, or reverses a penalty
// that is not executed yet. The first of two equal decisions stays. The operator in ctx
// (package actor) stands in the history. It fails with invalid_value, penalty_not_found
// and transition_not_allowed.
func (k *Keeper) Resolve(ctx context.Context, id ID, uphold bool, reason string) (Penalty, error) {
	if err := checkText("reason", reason, maxResolution); err != nil {
		return Penalty{}, err
	}
	decision := Reverse
	if uphold {
		decision = Uphold
	}
	return k.change(ctx, id, func(p *Penalty, now time.Time) (Entry, error) {
		return p.take(decision, actor.OfOperator(ctx), reason, now)
	})
}

// ExecuteDue executes the penalties that are due, at most MaxBatch of them, each in a
// transaction. more reports whether another call may find more.
//
// A penalty that fails does not keep the others from it: each call goes on behind the call
// before, and begins anew when no more were found. So however many fail, the others have
// their turn.
func (k *Keeper) ExecuteDue(ctx context.Context) (executed []Penalty, more bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due, err := k.store.Due(ctx, k.behind, MaxBatch)
	if err != nil {
		return nil, false, err
	}
	k.behind = Place{}
	if more = len(due) == MaxBatch; more {
		k.behind = due[MaxBatch-1]
	}
	var faults []error
	for _, at := range due {
		p, e, err := k.store.Change(ctx, at.ID, (*Penalty).carryOut)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if e.Cause != "" { // otherwise another process was first
			k.announce(ctx, p)
			executed = append(executed, p)
		}
	}
	return executed, more, errors.Join(faults...)
}

// Backlog counts what is not final.
func (k *Keeper) Backlog(ctx context.Context) (Backlog, error) { return k.store.Backlog(ctx) }

func (k *Keeper) change(ctx context.Context, id ID, apply func(*Penalty, time.Time) (Entry, error)) (Penalty, error) {
	p, e, err := k.store.Change(ctx, id, apply)
	if err != nil {
		return Penalty{}, err
	}
	if e.Cause != "" {
		k.announce(ctx, p)
	}
	return p, nil
}
