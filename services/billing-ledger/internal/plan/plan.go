// Package plan has token plans: a subscription that pays for some of an account's
// requests instead of the account's credit.
//
// A plan is data: a set of limits. Each limit has a kind, a period and a cap, and applies
// to models of some tiers. A cap may change, and a limit may be turned on and off,
// because every limit is counted whether it is on or not. Days, ISO weeks and months
// begin at midnight UTC by the database's clock.
//
// An allowance (tokens or list price) that is enabled says which tiers the plan covers. Not
// every tier that it covers draws on it: the free tier takes nothing of an allowance, and is
// covered when the allowance is used up. A
// request is covered whole or not at all. That is decided once, when the request is
// admitted, and never changes. It is covered when its tier is, when it is neither pinned
// nor zero-priced, when every limit has room for the most that it can use, and when the
// plan counts its unit: tokens always, images while the plan has a limit on images, and
// any unit, audio too, in an allowance of list price. A request that is not covered is
// paid from credit. It is refused with plan_allowance_exceeded when the credit is short
// too. A covered request above the plan's rate or concurrency is refused, and not paid
// from credit.
//
// The estimate of a covered request is counted when it is admitted, and corrected in the
// same windows when it has ended. An estimate never passes a cap. Actual usage may pass
// one, and the excess is not charged. The request and its images are given back to the
// plan only when the platform failed and nothing was served.
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

// Tier groups models for coverage. The store keeps the numbers; no plan covers tier 0.
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

// Pin is what admission pinned of a covered request. Every window in which the request
// counts follows from it.
type Pin struct {
	// Plan is empty for a request that is not covered.
	Plan string
	Tier Tier
	// Day is the UTC day of the admission, in days since 1970-01-01.
	Day int32
}

// Units are the amounts that requests use of a plan.
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

// Used returns the correction of the counters for what the request used. The request and
// its images stay counted unless the platform failed and served nothing.
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

// Subscription is the plan in force for an account, with its counters.
type Subscription struct {
	Plan string
	// Until is zero for a plan without an end.
	From, Until time.Time
	Counters    []Counter
}

// Counter is one limit with what is used of it in the current window.
type Counter struct {
	Kind    Kind
	Period  string
	Used    int64
	Cap     int64
	Enabled bool
	// WindowEnd is zero for a limit without a window.
	WindowEnd time.Time
}

// Errors that a store returns: for an account or a plan that does not exist, and for an
// end that is not in the future.
var (
	ErrNoAccount = errors.New("no such account")
	ErrNoPlan    = errors.New("no such plan")
	ErrPast      = errors.New("the end is not in the future")
)

// Store keeps the plans of accounts.
type Store interface {
	// Subscribe puts an account on a plan from now on; an empty plan takes it off. A plan
	// that is in force already keeps its beginning.
	Subscribe(ctx context.Context, account ids.AccountID, plan string, until time.Time) error
	// Subscription returns the plan in force, nil for none.
	Subscription(ctx context.Context, account ids.AccountID) (*Subscription, error)
}

// Plans answers operators.
type Plans struct{ Store Store }

// Set puts an account on a plan until a time, which is zero for no end. An empty plan
// takes the account off.
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

// Of returns the plan in force for an account, nil for none.
func (p *Plans) Of(ctx context.Context, account ids.AccountID) (*Subscription, error) {
	s, err := p.Store.Subscription(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("read the plan of an account: %w", err)
	}
	return s, nil
}
