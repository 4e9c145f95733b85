// Package account has the operators' actions on consumer accounts: opening them, granting
// them credit, setting their limits, and freezing them. It also says which labels are
// valid: the names, memos, idempotency keys and reasons that operators and users give.
package account

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
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Bounds of an operator's texts and amounts; lengths are in characters.
const (
	MaxName           = 64
	MaxMemo           = 200
	MaxIdempotencyKey = 255
	MaxGrant          = 1_000_000 * money.USD
)

// State says whether an account may be used.
type State string

// The states. No request of a frozen account is admitted; running ones finish.
const (
	Open   State = "open"
	Frozen State = "frozen"
)

// Account is a consumer account with its balance.
type Account struct {
	ID     ids.AccountID
	Name   string
	State  State
	Limits limit.Limits
	// Balance is the credit of the account, and Held the part of it that open holds set
	// aside.
	Balance   money.NanoUSD
	Held      money.NanoUSD
	CreatedAt time.Time
}

// Errors that a store returns: ErrReused for an idempotency key that stands for another
// call, ErrNotFound for an account that does not exist, ErrCeiling for a balance that
// would grow beyond what the ledger counts.
var (
	ErrReused   = errors.New("the idempotency key stands for something else")
	ErrNotFound = errors.New("no such account")
	ErrCeiling  = errors.New("the balance would exceed its bound")
)

// Store keeps accounts.
type Store interface {
	// CreateAccount opens an account. With a key that was used for the same
	// name it returns the first account.
	CreateAccount(ctx context.Context, id ids.AccountID, name, idempotencyKey string) (Account, error)
	Account(ctx context.Context, id ids.AccountID) (Account, error)
	// Grant posts an entry that credits the account, and moves its wallet in
	// the same transaction. With a business id that was posted for the same
	// account and amount it returns the first entry's id.
	Grant(ctx context.Context, entry ledger.Entry, id ids.AccountID) (ids.EntryID, Account, error)
	SetLimits(ctx context.Context, id ids.AccountID, limits limit.Limits) (Account, error)
	// SetState keeps a change with its memo. Setting the present state changes nothing.
	SetState(ctx context.Context, id ids.AccountID, state State, memo string) (Account, error)
}

// Accounts answers operators.
type Accounts struct {
	Store  Store
	Clock  clock.Clock
	Random io.Reader
}

// Draft is an account that is not stored yet.
type Draft struct {
	ID   ids.AccountID
	Name string
}

// Draft checks the name of an account and gives it an id.
func (a *Accounts) Draft(name string) (Draft, error) {
	if !ValidLabel(name, 1, MaxName) {
		return Draft{}, invalid("name", "must have 1 to %d printable characters", MaxName)
	}
	id, err := ids.NewAccount(a.Clock.Now(), a.Random)
	if err != nil {
		return Draft{}, fmt.Errorf("make an account id: %w", err)
	}
	return Draft{ID: id, Name: name}, nil
}

// Create opens an account without credit. idempotencyKey may be empty.
func (a *Accounts) Create(ctx context.Context, name, idempotencyKey string) (Account, error) {
	draft, err := a.Draft(name)
	if err != nil {
		return Account{}, err
	}
	if !ValidLabel(idempotencyKey, 0, MaxIdempotencyKey) {
		return Account{}, invalid("idempotency_key", "must have at most %d printable characters", MaxIdempotencyKey)
	}
	created, err := a.Store.CreateAccount(ctx, draft.ID, draft.Name, idempotencyKey)
	if err != nil {
		return Account{}, explain(err, "create account")
	}
	return created, nil
}

// Get reads an account.
func (a *Accounts) Get(ctx context.Context, id ids.AccountID) (Account, error) {
	found, err := a.Store.Account(ctx, id)
	if err != nil {
		return Account{}, explain(err, "read account")
	}
	return found, nil
}

// Grant gives credit at the platform's expense, for the reason that memo says. idempotencyKey
// is required: a repeat returns the first entry.
func (a *Accounts) Grant(
	ctx context.Context, id ids.AccountID, amount money.NanoUSD, idempotencyKey, memo string,
) (ids.EntryID, Account, error) {
	switch {
	case amount <= 0 || amount > MaxGrant:
		return ids.EntryID{}, Account{}, invalid("amount_usd", "must be above 0 and at most %s", MaxGrant)
	case !ValidLabel(idempotencyKey, 1, MaxIdempotencyKey):
		return ids.EntryID{}, Account{}, invalid("idempotency_key", "must have 1 to %d printable characters",
			MaxIdempotencyKey)
	case !ValidLabel(memo, 1, MaxMemo):
		return ids.EntryID{}, Account{}, invalid("memo", "must have 1 to %d printable characters", MaxMemo)
	}
	entryID, err := ids.NewEntry(a.Clock.Now(), a.Random)
	if err != nil {
		return ids.EntryID{}, Account{}, fmt.Errorf("make an entry id: %w", err)
	}
	entry := ledger.Grant(entryID, id, amount, idempotencyKey, memo)
	posted, credited, err := a.Store.Grant(ctx, entry, id)
	if err != nil {
		return ids.EntryID{}, Account{}, explain(err, "grant credit")
	}
	return posted, credited, nil
}

// SetLimits replaces an account's limits.
func (a *Accounts) SetLimits(ctx context.Context, id ids.AccountID, limits limit.Limits) (Account, error) {
	if err := limits.Validate(); err != nil {
		return Account{}, err
	}
	changed, err := a.Store.SetLimits(ctx, id, limits)
	if err != nil {
		return Account{}, explain(err, "set limits")
	}
	return changed, nil
}

// SetState freezes an account or opens it, for the reason that memo says.
func (a *Accounts) SetState(ctx context.Context, id ids.AccountID, state State, memo string) (Account, error) {
	if state != Open && state != Frozen {
		return Account{}, invalid("state", "must be %s or %s", Open, Frozen)
	}
	if !ValidLabel(memo, 1, MaxMemo) {
		return Account{}, invalid("memo", "must have 1 to %d printable characters", MaxMemo)
	}
	changed, err := a.Store.SetState(ctx, id, state, memo)
	if err != nil {
		return Account{}, explain(err, "set the state of an account")
	}
	return changed, nil
}

// NotFound is the error for an account that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account").On("account_id")
}

func explain(err error, attempted string) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return NotFound()
	case errors.Is(err, ErrReused):
		return fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the idempotency key was used for something else").On("idempotency_key")
	case errors.Is(err, ErrCeiling):
		return invalid("amount_usd", "would raise the balance above its bound")
	default:
		return fmt.Errorf("%s: %w", attempted, err)
	}
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
