package payout

import (
	"context"
	"errors"
	"io"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// Store keeps payouts. Its clock is the database's, and what it returns is committed.
type Store interface {
	// Insert adds a payout on the settlement chain of its provider, under the provider's lock. The same operation again
	// returns its first payout, and with another digest fails with idempotency_key_reused. It fails with payout_pending,
	// payout_too_frequent and refund_open. may sees the chain, and its error is returned.
	Insert(ctx context.Context, d Draft, op Operation, may func(chain.ID) error) (p Payout, fresh bool, err error)
	// Now is the time by which waits end.
	Now(ctx context.Context) (time.Time, error)
	// Known returns the payout of an operation; ok is false where there is none.
	Known(ctx context.Context, op Operation) (p Payout, ok bool, err error)
	// Get reads a payout. It fails with payout_not_found.
	Get(ctx context.Context, id ID) (Payout, error)
	// Change locks a payout, has apply change it, and stores it with the step. A step without a cause changes nothing.
	// It fails with payout_not_found, as apply, with ErrDayFull, and as enqueuing (package sending).
	Change(ctx context.Context, id ID, apply func(p *Payout) (Step, error)) (Payout, error)
	// CancelCall stores that an operator wants the call of a payout cancelled.
	CancelCall(ctx context.Context, id ID, actor, reason string) error
	// Note stores what a look found.
	Note(ctx context.Context, id ID, waiting, screened string) error
	// Call returns the call of a payout; ok is false where there is none.
	Call(ctx context.Context, id ID) (s sending.Status, ok bool, err error)
	// InFlight sums what the payouts of a chain send that have not ended.
	InFlight(ctx context.Context, id chain.ID) (chain.Amount, error)
	// Open lists payouts that are not final, those first that were not looked at for longest.
	Open(ctx context.Context, limit int) ([]ID, error)
	// Backlog counts payouts that are not final.
	Backlog(ctx context.Context) (Backlog, error)
	// OfProvider and InState list payouts, newest first, and count all of them. An empty state stands for all.
	OfProvider(ctx context.Context, id ids.ProviderID, offset, limit int) ([]Payout, int, error)
	InState(ctx context.Context, s State, offset, limit int) ([]Payout, int, error)
	// NextAt returns when the hour of a provider's newest payout on its settlement chain ends, and the zero time where
	// none lasts.
	NextAt(ctx context.Context, id ids.ProviderID) (time.Time, error)

	// InsertConversion and EndConversion keep conversions. An operation has one, which KnownConversion
	// returns; ok is false where there is none. InsertConversion fails with rate_limit_exceeded for a provider that has
	// had MaxConversions within Every.
	KnownConversion(ctx context.Context, op Operation) (c Conversion, ok bool, err error)
	InsertConversion(ctx context.Context, c Conversion, op Operation) (Conversion, error)
	// Conversions lists those that have not ended and are due, the longest due first.
	Conversions(ctx context.Context, limit int) ([]Conversion, error)
	// DelayConversion counts a try, and lets the conversion wait. Of two at once one is counted.
	DelayConversion(ctx context.Context, c Conversion, pause time.Duration) error
	EndConversion(ctx context.Context, c Conversion) (Conversion, error)
}

// ErrDayFull says that as much was approved today without an operator as may be.
var ErrDayFull = errors.New("the day's automatic approvals are used up")

// Operation is what an owner asked for under an Idempotency-Key.
type Operation struct {
	ProviderID ids.ProviderID
	Key        string
	// Digest is that of all that was asked.
	Digest [32]byte
	// Actor is who asked: user:id or wallet:address.
	Actor string
}

// Backlog counts payouts that are not final.
type Backlog struct {
	Open map[State]int
	// Waiting counts them by what keeps them.
	Waiting map[string]int
	// Stuck have not changed for an hour, although nobody is asked.
	Stuck int
	// StuckConversions have not ended after StuckConversion tries.
	StuckConversions int
}

// Ledger is the books.
type Ledger interface {
	// Balances returns what of a provider may be paid out, and what is in flight.
	Balances(ctx context.Context, id ids.ProviderID) (payable, inFlight money.NanoUSD, err error)
	// Reserve posts line 16, Confirm line 17, and GiveBack line 18. Each is idempotent by the payout. Reserve fails with
	// insufficient_earnings.
	Reserve(ctx context.Context, p Payout) (ids.EntryID, error)
	Confirm(ctx context.Context, p Payout) (ids.EntryID, error)
	GiveBack(ctx context.Context, p Payout) (ids.EntryID, error)
	// Convert posts line 19, idempotent by the conversion. It fails with insufficient_earnings.
	Convert(ctx context.Context, c Conversion) (ids.EntryID, error)
}

// Payee is a provider as one pays it.
type Payee struct {
	// Account is the consumer account of the user who owns the provider; zero for none.
	Account ids.AccountID
	// Address is zero for a provider without one.
	Address chain.Address
	// CoolingUntil is until when nothing goes to the address, because it is new. It may be past.
	CoolingUntil time.Time
}

// Payees is the hub.
type Payees interface {
	// Payee reads a provider. It fails with provider_not_found.
	Payee(ctx context.Context, id ids.ProviderID) (Payee, error)
}

// Screener says with which addresses the platform does not deal. An error is no verdict.
type Screener interface {
	Screen(ctx context.Context, address chain.Address) (denied bool, version string, err error)
}

// Wallet is the hot wallet of a chain.
type Wallet interface {
	// Holds returns what an address holds of the asset in which a chain pays, as of the last final block.
	Holds(ctx context.Context, id chain.ID, of chain.Address) (chain.Amount, error)
}

// Sender is the pipeline.
type Sender interface {
	Check(ctx context.Context, id chain.ID, key sending.Key) (chain.Address, uint64, error)
	Prepare(ctx context.Context, r sending.Request) (sending.Prepared, error)
}

// Config of payouts.
type Config struct {
	// Assets are what is paid on the chains on which providers are paid.
	Assets map[chain.ID]chain.Asset
	// Own are addresses of the platform itself, to which nobody is paid.
	Own map[chain.ID][]chain.Address
	// Alone is the most of one payout, and AloneDaily of all payouts of a day (UTC) that are not given back, that is
	// approved without an operator. 0: nothing is.
	Alone, AloneDaily money.NanoUSD
}

// Deps are the parts that a keeper works with.
type Deps struct {
	Store    Store
	Ledger   Ledger
	Payees   Payees
	Screener Screener
	Quotes   sending.Quotes
	Wallet   Wallet
	Sender   Sender
	Clock    clock.Clock
	Random   io.Reader
	// Kept is called for a payout that stays where it is because something failed.
	Kept func(ctx context.Context, p Payout, err error)
}

// Keeper moves payouts through their life.
type Keeper struct {
	cfg  Config
	deps Deps
}

// NewKeeper makes a keeper. What it may approve alone is bounded by Alone.
func NewKeeper(cfg Config, deps Deps) *Keeper {
	cfg.Alone = min(cfg.Alone, Alone)
	return &Keeper{cfg, deps}
}

// Get reads a payout. It fails with payout_not_found.
func (k *Keeper) Get(ctx context.Context, id ID) (Payout, error) { return k.deps.Store.Get(ctx, id) }

// Backlog counts what is not final.
func (k *Keeper) Backlog(ctx context.Context) (Backlog, error) { return k.deps.Store.Backlog(ctx) }

// alone is the most of one payout that is approved without an operator.
func (k *Keeper) alone() money.NanoUSD { return min(k.cfg.Alone, k.cfg.AloneDaily) }
