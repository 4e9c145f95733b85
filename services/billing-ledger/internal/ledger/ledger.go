// Package ledger has the chart of accounts and the entries of the double-entry
// ledger for everything that is not a settled request.
//
// Amounts are nano-USD. An amount above zero credits an account, one below zero
// debits it; the postings of an entry sum to zero. The database checks the same
// by a trigger, and keeps in posting_rule which accounts an entry of a kind may
// touch: a provider is credited by settled requests and by orphan work, and by
// nothing else.
package ledger

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// AccountKind is a line of the chart of accounts. Liabilities begin with l,
// revenue with r, expenses with e.
type AccountKind string

// The chart, as far as it is in use.
const (
	// Available is what a consumer may still spend.
	Available AccountKind = "l:consumer:available"
	// Held is what open holds have set aside.
	Held AccountKind = "l:consumer:held"
	// Accrued is what a provider has earned and was not yet batched.
	Accrued AccountKind = "l:provider:accrued"
	// UsageMargin is list price less payout.
	UsageMargin AccountKind = "r:usage_margin"
	// Shortfall is what a request cost above what its consumer had.
	Shortfall AccountKind = "e:shortfall"
	// OrphanWork is what providers are paid for requests whose hold is gone.
	OrphanWork AccountKind = "e:orphan_work"
	// Goodwill is credit given by an operator.
	Goodwill AccountKind = "e:goodwill"
)

// EntryKind is the business fact behind an entry.
type EntryKind string

// The kinds of entries.
const (
	// GoodwillGrant credits a consumer at the platform's expense. Business id:
	// the operator's idempotency key.
	GoodwillGrant EntryKind = "goodwill"
	// OrphanPayout pays a provider for a request whose hold was released or had
	// expired. Business id: the request id.
	OrphanPayout EntryKind = "orphan_work"
)

// Account is one account of the ledger; Owner is zero where a kind has a single
// account.
type Account struct {
	Kind  AccountKind
	Owner [16]byte
}

// Posting is one leg of an entry.
type Posting struct {
	Account Account
	Amount  money.NanoUSD
}

// Entry is a balanced set of postings. Kind and BusinessID together are unique.
type Entry struct {
	ID         ids.EntryID
	Kind       EntryKind
	BusinessID string
	Memo       string
	Postings   []Posting
}

// Validate checks what the database checks too: two legs or more, none of them
// zero, and a sum of zero.
func (e Entry) Validate() error {
	if len(e.Postings) < 2 {
		return errors.New("an entry needs two legs")
	}
	var sum money.NanoUSD
	for _, p := range e.Postings {
		next := sum + p.Amount
		if p.Amount == 0 || (p.Amount > 0) != (next > sum) {
			return fmt.Errorf("posting of %d to %s is zero or out of range", p.Amount, p.Account.Kind)
		}
		sum = next
	}
	if sum != 0 {
		return fmt.Errorf("postings sum to %d", sum)
	}
	return nil
}

// Grant is the entry that gives a consumer credit.
func Grant(id ids.EntryID, account ids.AccountID, amount money.NanoUSD, idempotencyKey, memo string) Entry {
	return Entry{ID: id, Kind: GoodwillGrant, BusinessID: idempotencyKey, Memo: memo, Postings: []Posting{
		{Account{Kind: Goodwill}, -amount},
		{Account{Kind: Available, Owner: account}, amount},
	}}
}

// Orphan is the entry that pays a provider at the platform's expense.
func Orphan(id ids.EntryID, request ids.RequestID, provider ids.ProviderID, payout money.NanoUSD) Entry {
	return Entry{ID: id, Kind: OrphanPayout, BusinessID: request.String(), Postings: []Posting{
		{Account{Kind: OrphanWork}, -payout},
		{Account{Kind: Accrued, Owner: provider}, payout},
	}}
}
