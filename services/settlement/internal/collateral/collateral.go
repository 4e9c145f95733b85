// Package collateral tells the hub whose collateral is confirmed.
//
// Settlement keeps one fact for each provider, with a revision that grows with each
// change, and tells the hub until the hub has taken it. The hub ignores older revisions,
// so that a fact that is told twice, or late, is harmless.
//
// Each fact has a source: a contract, a card, or development, where every provider that is
// heard of is confirmed once and no money stands behind it. Package position decides the
// first two, and why a provider is suspended, which is told in the same way. For
// development, providers are heard of in hubs' presence reports, which come every 10
// seconds, so what is dropped here comes again. A process without the setting withdraws what
// rests on development alone. A fact of another source is not touched by either.
//
// Limits: MaxWaiting providers that are heard of and not recorded yet, MaxKnown providers
// that are remembered as recorded, and MaxBatch facts told in one pass. The store lets
// RetryAfter pass between two tries of one fact.
package collateral

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/pkg/ids"
)

// The limits.
const (
	MaxWaiting = 4_096
	MaxKnown   = 65_536
	MaxBatch   = 100
	RetryAfter = 10 * time.Second
)

// Source says what stands behind a fact.
type Source string

// The sources.
const (
	// FromDevelopment is a setting for development: nobody holds anything.
	FromDevelopment Source = "development"
	// FromContract is collateral that a contract holds.
	FromContract Source = "contract"
	// FromCard is collateral that was paid by card.
	FromCard Source = "card"
)

// Cause is why a provider is suspended, as far as settlement says so.
type Cause string

// The causes.
const (
	// Refund is a refund of the provider's collateral that is not paid yet.
	Refund Cause = "refund"
	// CardReversed is a payment by card that went back to the card's owner.
	CardReversed Cause = "card"
	// Exit is a depositor who leaves with collateral without which nothing is confirmed.
	Exit Cause = "exit"
)

// Causes returns every cause.
func Causes() []Cause { return []Cause{Refund, CardReversed, Exit} }

// Suspension is what the hub is told of one cause of a provider.
type Suspension struct {
	ProviderID ids.ProviderID
	Cause      Cause
	Holds      bool
	// Revision grows with each change of the cause, from 1.
	Revision int64
}

// Fact is what the hub is told of a provider.
type Fact struct {
	ProviderID ids.ProviderID
	Confirmed  bool
	Source     Source
	// Revision grows with each change, from 1.
	Revision int64
}

// Store keeps facts. Its clock is the database's.
type Store interface {
	// ConfirmDevelopment records that the collateral of providers is confirmed, by the
	// source development. A fact that says so already stays, and so does a fact of another
	// source.
	ConfirmDevelopment(ctx context.Context, providers []ids.ProviderID) error
	// WithdrawDevelopment records that the collateral of all providers is not confirmed
	// that was confirmed by the source development, and returns how many there were.
	WithdrawDevelopment(ctx context.Context) (int, error)
	// Pending lists facts that the hub has not taken and that were not tried within pause,
	// the facts that wait longest for a try first.
	Pending(ctx context.Context, pause time.Duration, limit int) ([]Fact, error)
	// Tried records a try. taken reports whether the hub took the fact. A fact that has
	// another revision by now stays untold.
	Tried(ctx context.Context, f Fact, taken bool) error
	// PendingSuspensions and TriedSuspension are the same for suspensions.
	PendingSuspensions(ctx context.Context, pause time.Duration, limit int) ([]Suspension, error)
	TriedSuspension(ctx context.Context, s Suspension, taken bool) error
}

// Hub takes facts.
type Hub interface {
	SetCollateral(ctx context.Context, f Fact) error
	SetSuspension(ctx context.Context, s Suspension) error
}

// Teller tells the hub the facts that it has not taken.
type Teller struct {
	store Store
	hub   Hub
}

// Tell tells the hub what it has not taken, and returns how many facts the hub took. A fact
// that the hub refuses does not keep the others from it.
func (t Teller) Tell(ctx context.Context) (told int, err error) {
	facts, err := t.store.Pending(ctx, RetryAfter, MaxBatch)
	if err != nil {
		return 0, err
	}
	suspensions, err := t.store.PendingSuspensions(ctx, RetryAfter, MaxBatch)
	if err != nil {
		return 0, err
	}
	var faults []error
	tried := func(refused error, record func(taken bool) error) {
		if refused == nil {
			told++
		}
		faults = append(faults, refused, record(refused == nil))
	}
	// A suspension is told first, so that nobody becomes active between the two.
	for _, s := range suspensions {
		tried(t.hub.SetSuspension(ctx, s), func(taken bool) error { return t.store.TriedSuspension(ctx, s, taken) })
	}
	for _, f := range facts {
		tried(t.hub.SetCollateral(ctx, f), func(taken bool) error { return t.store.Tried(ctx, f, taken) })
	}
	return told, errors.Join(faults...)
}

// Withdrawal is for a process without development collateral. It is for one goroutine.
type Withdrawal struct {
	Teller
	done bool
}

// NewWithdrawal makes a Withdrawal.
func NewWithdrawal(store Store, hub Hub) *Withdrawal { return &Withdrawal{Teller: Teller{store, hub}} }

// Pass withdraws what rests on development, once, and tells the hub what it has not taken.
// It returns how many facts the hub took.
func (w *Withdrawal) Pass(ctx context.Context) (told int, err error) {
	if !w.done {
		if _, err := w.store.WithdrawDevelopment(ctx); err != nil {
			return 0, err
		}
		w.done = true
	}
	return w.Tell(ctx)
}

// Development confirms every provider that it hears of. It is safe for concurrent use.
type Development struct {
	Teller

	mu      sync.Mutex
	waiting map[ids.ProviderID]struct{}
	// known are providers that are recorded. All are forgotten when there are too many:
	// then they are recorded again, which changes nothing.
	known map[ids.ProviderID]struct{}
}

// NewDevelopment makes a Development.
func NewDevelopment(store Store, hub Hub) *Development {
	return &Development{Teller: Teller{store, hub}, waiting: map[ids.ProviderID]struct{}{},
		known: map[ids.ProviderID]struct{}{}}
}

// Heard notes that a provider exists. Beyond MaxWaiting it is dropped, to be heard of
// again.
func (d *Development) Heard(id ids.ProviderID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.known[id]; !known && len(d.waiting) < MaxWaiting {
		d.waiting[id] = struct{}{}
	}
}

// Waits reports whether a provider was heard of that is not recorded.
func (d *Development) Waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) > 0
}

// Pass records the providers that were heard of, and tells the hub what it has not taken.
// It returns how many facts the hub took.
func (d *Development) Pass(ctx context.Context) (told int, err error) {
	if err := d.record(ctx); err != nil {
		return 0, err
	}
	return d.Tell(ctx)
}

// record moves the providers that wait into the store. They wait on where that fails.
func (d *Development) record(ctx context.Context) error {
	d.mu.Lock()
	heard := make([]ids.ProviderID, 0, len(d.waiting))
	for id := range d.waiting {
		heard = append(heard, id)
	}
	d.mu.Unlock()
	if len(heard) == 0 {
		return nil
	}
	if err := d.store.ConfirmDevelopment(ctx, heard); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known)+len(heard) > MaxKnown {
		clear(d.known)
	}
	for _, id := range heard {
		delete(d.waiting, id)
		d.known[id] = struct{}{}
	}
	return nil
}
