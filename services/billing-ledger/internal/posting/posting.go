// Package posting posts the facts that settlement knows: what providers are paid, what
// happens to collateral, and which tokens come and go. Each fact is one entry of package
// ledger. A caller names the fact and never legs, so that no caller moves money in a way of
// its own.
//
// A fact is posted once. Its kind and its business id, which follows from its own parts,
// recognise a repeat, which returns the first entry. Another fact under the same business
// id is refused.
//
// Some entries depend on what the books say when they are posted: what a provider or a
// consumer owes is taken first, and what cannot be taken back becomes a debt. The store
// reads that under a lock, in the transaction that posts.
package posting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Needs are whose balances an entry depends on; the zero value is nobody's.
type Needs struct {
	Provider ids.ProviderID
	// Cards reports whether the provider's card payments count too.
	Cards   bool
	Account ids.AccountID
}

// Has is what the books say of them.
type Has struct {
	// Owed is what the provider owes, and Collateral what it has paid by card.
	Owed, Collateral money.NanoUSD
	// Room is that of ledger.CardBacking.
	Room money.NanoUSD
	// Unheld is the consumer's credit that no open hold has set aside.
	Unheld money.NanoUSD
}

// Backing is what counts when something comes back to collateral.
func (h Has) Backing() ledger.CardBacking {
	return ledger.CardBacking{Room: h.Room, Owed: h.Owed}
}

// Fact is a fact that can be posted: one of the types of this package.
type Fact interface {
	// businessID identifies the fact among those of its kind.
	businessID() string
	needs() Needs
	entry(f ledger.Fact, has Has) (ledger.Entry, error)
}

// sourced is a fact that brings an account tokens from an address.
type sourced interface {
	source() (ids.AccountID, kin.Evidence)
}

// Revalued is a coin's value in the books at the rate of a day: Booked before, and Units of
// it. A coin is revalued once a day, on the day itself, and only by what the books have.
type Revalued struct {
	Day    time.Time
	Booked money.NanoUSD
	Units  ledger.Units
	Quote  ledger.Quote
}

func (f Revalued) needs() Needs { return Needs{} }

func (f Revalued) businessID() string {
	return fmt.Sprintf("%s/%s", f.Quote.Token, f.Day.Format(time.DateOnly))
}

func (f Revalued) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.Revaluation(fact, f.Booked, f.Units, f.Quote)
}

// The errors of revaluations and closes.
var (
	// ErrDiffers is the error where the ledger counts otherwise than settlement.
	ErrDiffers = errors.New("the ledger counts otherwise")
	// ErrOtherDay is the error for the revaluation of another day than today.
	ErrOtherDay = errors.New("the day is not today")
)

// Store posts entries.
type Store interface {
	// PostFrom posts the entry that make returns for what the books say of needs, in one
	// transaction, and returns the id of the first entry of that fact. Its errors are those
	// of ledger and of make.
	PostFrom(ctx context.Context, needs Needs, make func(Has) (ledger.Entry, error)) (ids.EntryID, error)
	// Revalue posts the entry that make returns, once for each day and coin: a repeat returns
	// the first entry. Its errors are ErrDiffers where the books do not have what the fact
	// says, ErrOtherDay where the day is not today, and those of ledger and of make.
	Revalue(ctx context.Context, r Revalued, make func() (ledger.Entry, error)) (ids.EntryID, error)
}

// Poster posts facts.
type Poster struct {
	Store Store
	// Mark keeps where the deposits of accounts came from. It is nil where no fact has a source.
	Mark   func(context.Context, []kin.Mark) error
	Clock  clock.Clock
	Random io.Reader
}

// Post posts a fact, and returns the id of its entry. Its errors are fault.Invalid for what
// cannot be a fact and fault.Precondition for what the books do not allow now.
//
// The source of a deposit marks its account once the deposit is posted. Where that fails, Post
// fails, and the caller posts the fact again: the books have it once, and the mark is kept then.
func (p *Poster) Post(ctx context.Context, f Fact) (ids.EntryID, error) {
	id, err := ids.NewEntry(p.Clock.Now(), p.Random)
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("make an entry id: %w", err)
	}
	from := func(has Has) (ledger.Entry, error) {
		e, err := f.entry(ledger.Fact{ID: id, BusinessID: f.businessID()}, has)
		if err != nil {
			return e, fault.New(fault.Invalid, fault.InvalidValue, "%v", err)
		}
		return e, nil
	}
	var posted ids.EntryID
	if r, ok := f.(Revalued); ok {
		posted, err = p.Store.Revalue(ctx, r, func() (ledger.Entry, error) { return from(Has{}) })
	} else {
		posted, err = p.Store.PostFrom(ctx, f.needs(), from)
	}
	if err == nil {
		err = p.mark(ctx, f)
	}
	return posted, explain(err)
}

func (p *Poster) mark(ctx context.Context, f Fact) error {
	s, ok := f.(sourced)
	if !ok {
		return nil
	}
	account, source := s.source()
	if source.IsZero() {
		return nil
	}
	return p.Mark(ctx, []kin.Mark{{Account: account, Cause: kin.DepositSource, Evidence: source}})
}

// reasons are why the books refuse a fact.
var reasons = []struct {
	err    error
	reason fault.Reason
	text   string
}{
	{ledger.ErrReused, fault.IdempotencyKeyReused, "another fact was posted under the same business id"},
	{ledger.ErrUnearned, fault.InsufficientEarnings, "the provider has less than that"},
	{ledger.ErrHeld, fault.EarningsHeld, "a part of it is held for a person to look at"},
	{ledger.ErrShort, fault.InsufficientCredits, "the consumer has less credit than that"},
	{ledger.ErrOverpaid, fault.TransitionNotAllowed, "less than that is owed"},
	{ledger.ErrNoPayout, fault.TransitionNotAllowed, "no payout of the provider and the amount was requested"},
	{ledger.ErrNoRefund, fault.TransitionNotAllowed, "no refund of the provider and the amount ends so"},
	{ledger.ErrMonthClosed, fault.TransitionNotAllowed, "the month is closed"},
	{ledger.ErrEnded, fault.TransitionNotAllowed, "it has ended otherwise"},
	{ErrOtherDay, fault.TransitionNotAllowed, "a coin is revalued on the day itself"},
	{ledger.ErrCeiling, fault.InvalidValue, "a balance would grow beyond its bound"},
}

func explain(err error) error {
	if errors.Is(err, ledger.ErrNoWallet) {
		return fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account").On("account_id")
	}
	if errors.Is(err, ErrDiffers) {
		return fault.Wrap(err, fault.Precondition, fault.CountsDiffer, "%v", err)
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return fault.Wrap(err, fault.Precondition, r.reason, "%s", r.text)
		}
	}
	return err
}
