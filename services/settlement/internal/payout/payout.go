// Package payout pays providers what they have earned, each payout once.
//
// A payout goes by one table of transitions (state.go): requested, approved, signing, submitted, confirmed, or failed
// or cancelled. Every change is a decision under the lock of the payout's row, with an entry of its history. What is
// done outside of the database comes before the change that says so, and is idempotent by the payout's id: the books
// are told first, and then the row. So a process may die at any step, and the next one goes on by the state.
//
// A payout is sent through package sending: approved becomes signing in the transaction in which the call gets its
// nonce. Before that nothing was sent, and the money can be given back. From then on only a final receipt ends it.
// That a payout is not going to be sent is stored (EndsAs) before its money is given back, because otherwise a process
// that dies in between would be followed by one that sends it.
//
// Before a payout is sent, and before the money of one that was not sent is given back, the chain's nonces are compared
// with the database's (sending.Pipeline.Check), and what the books have in flight with the payout. A database that lost
// commits is found out by one of the two.
//
// It implements settlement.md, section 6.
package payout

import (
	"slices"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

const (
	// Minimum is the least gross amount.
	Minimum = 10 * money.USD
	// maximum bounds the gross amount.
	maximum = 1_000_000 * money.USD
	// Fee is the platform's, of each payout.
	Fee = money.USD
	// Every is how often a provider may ask for a payout on a chain.
	Every = time.Hour
	// MaxConversions bounds the conversions of a provider within Every. A conversion has no least amount, and each stays
	// in the books for ever.
	MaxConversions = 60
	// StuckConversion is after how many tries a conversion is one that an operator should look at: half an hour.
	StuckConversion = 5
	// Cooling is how long a new beneficiary address waits.
	Cooling = 48 * time.Hour
	// Alone is the most that is approved without an operator.
	Alone = 1_000 * money.USD
	// One is the most that is approved with one operator.
	One = 10_000 * money.USD
	// nanoPerMicro is the nano-USD in the smallest unit of USDC.
	nanoPerMicro = 1_000
	maxReason    = 500
)

// Purpose is that of payouts in package sending.
const Purpose = sending.PurposePayout

type kindOfID struct{}

// ID names a payout or a conversion: a UUID of version 7.
type ID = ids.Of[kindOfID]

// ParseID reads an id.
func ParseID(text string) (ID, error) {
	var id ID
	if err := id.Scan(text); err != nil {
		return ID{}, ids.ErrMalformed
	}
	return id, nil
}

// Draft is what a payout says. It never changes.
type Draft struct {
	ID         ID
	ProviderID ids.ProviderID
	Chain      chain.ID
	Gross, Fee money.NanoUSD
	// Address is the beneficiary address at the request.
	Address chain.Address
}

// Payout is one payout as it stands.
type Payout struct {
	Draft
	State       State
	Revision    int64
	RequestedAt time.Time
	// Reserved is the entry of line 16, Final that of line 17 or 18. Zero: not posted, as far as the row knows.
	Reserved, Final ids.EntryID
	// EndsAs is the state that a payout without a nonce is going to end in, once its money is given back.
	EndsAs State
	Reason string
	// Amount is what is sent, in the smallest units of the token, and Quote the price of a coin. Both are fixed with the
	// nonce.
	Amount chain.Amount
	Quote  sending.Quote
	// Waiting says what keeps it, in one word. Screened is the version of the last verdict.
	Waiting  string
	Screened string
	// Consents are the operators who approve, the first first. See Approvals for those who count.
	Consents []Approval
	// Transaction is the mined transaction of the payout. Before a block has one it is the newest.
	Transaction chain.Hash
	// ChangedAt is when the row last changed.
	ChangedAt time.Time
}

// Approval is an operator's consent to a payout. At is by the database's clock.
type Approval struct {
	// Operator is the actor: operator:name.
	Operator string
	At       time.Time
}

// Net returns what the provider is paid.
func (p *Payout) Net() money.NanoUSD { return p.Gross - p.Fee }

// Approvals returns the consents that count, the first first: at most two. Above One a machine's does not.
func (p *Payout) Approvals() []Approval {
	if p.Gross <= One {
		return p.Consents
	}
	return slices.DeleteFunc(slices.Clone(p.Consents), func(a Approval) bool { return !actor.IsPerson(a.Operator) })
}

// Entry is one change in a payout's history.
type Entry struct {
	Revision int64
	// From is empty for the request.
	From, To State
	Cause    Cause
	Actor    string
	Reason   string
}

// Step is one change of a payout, with what is stored in its transaction.
type Step struct {
	Entry
	// Consents stores the actor's consent.
	Consents bool
	// DayCap counts the payout among those that were approved today without an operator, of which all together are at
	// most so much. 0: it is not counted.
	DayCap money.NanoUSD
	// Unpaid takes it back out of what was approved on its day: nothing was paid.
	Unpaid bool
	// Call is enqueued.
	Call *sending.Prepared
}

// platform is the actor of what follows by itself.
const platform = "platform"

// take applies a cause. It fails with transition_not_allowed.
func (p *Payout) take(c Cause, actor, reason string) (Step, error) {
	to, err := p.to(c)
	if err != nil {
		return Step{}, err
	}
	e := Entry{Revision: p.Revision + 1, From: p.State, To: to, Cause: c, Actor: actor, Reason: reason}
	p.State, p.Revision, p.Waiting = to, e.Revision, ""
	return Step{Entry: e}, nil
}

// Place is the place of a payout that is not final, in the order of looks.
type Place struct {
	At time.Time
	ID ID
}

// The reasons of this package's faults.
const (
	NotFound       fault.Reason = "payout_not_found"
	RefundOpen     fault.Reason = "refund_open"
	AccountMissing fault.Reason = "account_missing"
)

func notFound() error { return fault.New(fault.NotFound, NotFound, "no such payout").On("payout_id") }

// to returns the state that a cause leads to. It fails with transition_not_allowed.
func (p *Payout) to(c Cause) (State, error) {
	states := p.State.After(c)
	switch {
	case len(states) == 0:
		return "", notAllowed("a payout that is %s takes no %s", p.State, c)
	case c == End:
		return p.EndsAs, nil
	default:
		return states[0], nil
	}
}

// Conversion is earnings that become credit of the same user, at par: no minimum, no fee, and beside an open payout
// too.
type Conversion struct {
	ID          ID
	ProviderID  ids.ProviderID
	Account     ids.AccountID
	Amount      money.NanoUSD
	RequestedAt time.Time
	// Entry is that of line 19. Refusal is the reason for which the books refused it. One of them is set once it has
	// ended.
	Entry   ids.EntryID
	Refusal string
	// Tries is how often the books did not take it, with no reason that ends it. DueAt is when they are told again.
	Tries int
	DueAt time.Time
}
