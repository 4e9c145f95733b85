// Package plan has token plans: what of an account's requests a subscription
// pays for instead of its credit.
//
// A plan is data: a set of limits, each a kind, a period and a cap for models of
// some tiers. Days, ISO weeks and months begin at midnight UTC by the database's
// clock. An allowance (tokens or list price) that is enabled says which tiers
// the plan covers. A request is covered whole or not at all, decided once when
// it is admitted and never changed: it must be of a covered tier, not pinned and
// not zero-priced, and every limit must have room for the most that it can use.
// One that finds no room is paid from credit. The rate and the concurrency of a
// plan are different: a covered request above them is refused.
//
// What a covered request was estimated at is counted when it is admitted and
// corrected, in the same windows, when it has ended. An estimate never passes a
// cap. What came may, and is not charged.
package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Tier groups models for coverage. The numbers are kept in the store; 0 is a
// tier that no plan covers.
type Tier int16

// The tiers.
const (
	Free     Tier = 1
	Standard Tier = 2
	Premium  Tier = 3
)

// Kind is what a limit counts.
type Kind string

// The kinds. Concurrent has no period; the others are counted in windows.
const (
	Requests   Kind = "requests"
	Images     Kind = "images"
	Tokens     Kind = "tokens"
	ListPrice  Kind = "list_price" // nano-USD
	Concurrent Kind = "concurrent"
)

// Pin is what admission pinned of a covered request: all the windows that it is
// counted in follow from it.
type Pin struct {
	// Plan is empty for a request that is not covered.
	Plan string
	Tier Tier
	// Day is that of the admission in UTC, in days since 1970-01-01.
	Day int32
}

// Units are what requests use of a plan.
type Units struct {
	Requests, Images, Tokens int64
	ListPrice                money.NanoUSD
}

// Plus adds.
func (u Units) Plus(v Units) Units {
	return Units{u.Requests + v.Requests, u.Images + v.Images, u.Tokens + v.Tokens, u.ListPrice + v.ListPrice}
}

// Minus subtracts.
func (u Units) Minus(v Units) Units {
	return u.Plus(Units{-v.Requests, -v.Images, -v.Tokens, -v.ListPrice})
}

// Cover is how a plan covers a request: the pin and what was counted.
type Cover struct {
	Pin
	Estimate Units
}

// Covered reports whether there is a plan.
func (c Cover) Covered() bool { return c.Plan != "" }

// Used corrects the counters for what the request used. It counts as a request,
// with its images, unless it was given nothing by the platform's fault.
func (c Cover) Used(tokens int64, listPrice money.NanoUSD, refunded bool) (correction Units) {
	actual := Units{Requests: c.Estimate.Requests, Images: c.Estimate.Images, Tokens: tokens, ListPrice: listPrice}
	if refunded {
		actual.Requests, actual.Images = 0, 0
	}
	return actual.Minus(c.Estimate)
}

// Key names counters that move together.
type Key struct {
	Account ids.AccountID
	Pin
}

// Subscription is the plan in force for an account, as it stands.
type Subscription struct {
	Plan string
	// Until is zero when there is no end to it.
	From, Until time.Time
	Counters    []Counter
}

// Counter is one limit with what is used of it in the window under way.
type Counter struct {
	Kind    Kind
	Period  string
	Used    int64
	Cap     int64
	Enabled bool
	// WindowEnd is zero for what has no window.
	WindowEnd time.Time
}

// What a store returns for an account or a plan that does not exist, and for an
// end that is not ahead.
var (
	ErrNoAccount = errors.New("no such account")
	ErrNoPlan    = errors.New("no such plan")
	ErrPast      = errors.New("the end is not ahead")
)

// Store keeps the plans of accounts.
type Store interface {
	// Subscribe puts an account on a plan from now on; an empty plan takes it
	// off. The plan that is in force already keeps its beginning.
	Subscribe(ctx context.Context, account ids.AccountID, plan string, until time.Time) error
	// Subscription is the plan in force, nil without one.
	Subscription(ctx context.Context, account ids.AccountID) (*Subscription, error)
}

// Plans answers operators.
type Plans struct{ Store Store }

// Set puts an account on a plan until a time, which is zero for no end, or takes
// it off when the plan is empty.
func (p *Plans) Set(ctx context.Context, account ids.AccountID, plan string, until time.Time) error {
	err := p.Store.Subscribe(ctx, account, plan, until)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoAccount):
		return fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account").On("account_id")
	case errors.Is(err, ErrNoPlan):
		return fault.New(fault.Invalid, fault.InvalidValue, "there is no such plan").On("plan")
	case errors.Is(err, ErrPast):
		return fault.New(fault.Invalid, fault.InvalidValue, "until must be ahead").On("until")
	}
	return fmt.Errorf("set the plan of an account: %w", err)
}

// Of is the plan in force for an account, nil without one.
func (p *Plans) Of(ctx context.Context, account ids.AccountID) (*Subscription, error) {
	s, err := p.Store.Subscription(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("read the plan of an account: %w", err)
	}
	return s, nil
}
