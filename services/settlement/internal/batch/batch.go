// Package batch makes the daily batches: of each sealed day of the ledger, what every provider may be paid, committed
// to one root for each chain, posted (line 15), and stated to the provider.
//
// A batch is a sealed day. What the ledger records after midnight is the next day's, whatever the request's day, so
// nothing that is sealed changes. A day is collected whole, line by line, and then committed whole. Days are collected
// and committed in their order; each step is one transaction, or harmless when it is made twice.
//
// The share of a provider is all that it has earned, that is free and that no share of an earlier day had:
//
//	earned = the accrued balance − what of it is held + all that earnings batches took from it, at the day's end
//	share  = earned − all shares of earlier days, never below zero
//
// So a share needs no history of its own: refunds, reversals, releases, blocked days and shares of which the books had
// less when they were posted are in these sums, and what one day lacks a later day has. Of an earlier share counts what
// was posted, or, while it is not posted, all of it.
//
// Two witnesses stand against the ledger's list of a day. Each request's amount is that of settlement's own line, and
// the changes of each account sum to what the ledger says that the account moved. A provider that a witness
// contradicts is blocked: its share is zero until the difference is gone or an operator has looked at it.
package batch

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

// Kind is by what earnings changed.
type Kind string

// The kinds, in the words of the CSV.
const (
	Payg         Kind = "payg"
	Plan         Kind = "plan"
	Orphan       Kind = "orphan"
	Refund       Kind = "refund"
	Reversal     Kind = "reversal"
	Entry        Kind = "entry"
	Held         Kind = "held"
	Released     Kind = "released"
	HeldRefunded Kind = "held_refunded"
	Forfeited    Kind = "forfeited"
	HeldReversed Kind = "held_reversed"
)

// The accounts of providers, as the ledger's chart names them.
const (
	Accrued    = "l:provider:accrued"
	PlanHeld   = "l:provider:plan_held"
	Payable    = "l:provider:payable"
	InFlight   = "l:provider:payout_in_flight"
	Receivable = "a:provider_receivable"
)

// The sums that settlement keeps beside the ledger's accounts.
const (
	// HeldSum is what is held of accrued earnings, and, with a month, of those of plans.
	HeldSum = "held"
	// BatchedSum is all that earnings batches took from accrued.
	BatchedSum = "batched"
	// PaidSum and ConvertedSum are all that was paid out and that became credit.
	PaidSum      = "paid"
	ConvertedSum = "converted"
)

// Chains are the chains that have a batch every day.
func Chains() []chain.ID { return []chain.ID{chain.Ethereum, chain.SVC, chain.Base} }

// PageSize is the largest number of rows in a page of the ledger's lists.
const PageSize = 5_000

// Change is one change of what a provider has earned.
type Change struct {
	Kind     Kind
	At       time.Time
	Request  ids.RequestID
	Entry    ids.EntryID
	Provider ids.ProviderID
	Account  string
	// Month is that of earnings by plans, 2026-03.
	Month  string
	Amount money.NanoUSD
	// EntryKind and BusinessID are those of the entry, in the ledger's words.
	EntryKind, BusinessID string
}

// Line is a change in its place: Number counts from 1 within the day.
type Line struct {
	Day    time.Time
	Number int64
	Change
}

// Balance is an account of a provider at the end of a day on which it moved.
type Balance struct {
	Provider       ids.ProviderID
	Account, Month string
	Moved, Balance money.NanoUSD
}

// Seal is the root of a day's seal.
type Seal [32]byte

// Posting is line 15: a share, or what the books still have of it.
type Posting struct {
	Day      time.Time
	Provider ids.ProviderID
	Chain    chain.ID
	Amount   money.NanoUSD
}

// The errors of a ledger.
var (
	// ErrDayOpen is the error for a day that is not sealed yet.
	ErrDayOpen = errors.New("the ledger's day is not sealed")
	// ErrRefused is the error where the books have less than a posting takes.
	ErrRefused = errors.New("the books have less than the share")
	// ErrReused is the error where the share was posted with another amount.
	ErrReused = errors.New("the share was posted with another amount")
)

// ErrAttempted is a Store's error where another process has made the attempt meanwhile.
var ErrAttempted = errors.New("another process attempts to post the share")

// Ledger is billing-ledger.
type Ledger interface {
	// Changes returns a page of a sealed day's changes, the token of the next page, empty after the last, and the
	// day's seal; or ErrDayOpen.
	Changes(ctx context.Context, day time.Time, token string) ([]Change, string, Seal, error)
	// Balances returns a page of the accounts that moved on a sealed day, and the token of the next page.
	Balances(ctx context.Context, day time.Time, token string) ([]Balance, string, error)
	// Free returns what a provider has accrued now and is not held.
	Free(ctx context.Context, provider ids.ProviderID) (money.NanoUSD, error)
	// Post posts a share once: a repeat returns the first entry. Its errors are ErrRefused and ErrReused.
	Post(ctx context.Context, p Posting) (ids.EntryID, error)
}

// Payees says where providers are paid.
type Payees interface {
	// Payees returns the beneficiaries of providers; of a provider that is missing there is none.
	Payees(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]chain.Address, error)
}

// NoPayees is a Payees that knows nobody's beneficiary.
type NoPayees struct{}

// Payees implements Payees.
func (NoPayees) Payees(context.Context, []ids.ProviderID) (map[ids.ProviderID]chain.Address, error) {
	return nil, nil
}
