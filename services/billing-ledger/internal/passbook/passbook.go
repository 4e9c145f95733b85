// Package passbook shows consumers their money and their usage: a line for everything that
// moved an account's credit with the balance after it, sums of usage by key, model, day and
// provider, the requests themselves, and both as CSV.
//
// The lines are made by the Folder, a moment after the books: settling and posting write
// nothing of it, so it costs them nothing. All rests on the time when something was recorded,
// in UTC. A closed day has the same lines for ever, the sum of a day's usage is the sum of its
// lines, and every answer says with as_of up to when it is complete.
//
// A page begins behind a place (time and number of a line), and lines are only added after
// those that there are. So pages neither skip nor repeat a line, whatever is recorded
// meanwhile, and no page costs more because there are many before it.
package passbook

import (
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Bounds of what one call may ask for.
const (
	// DefaultPage and MaxPage are in lines.
	DefaultPage = 50
	MaxPage     = 200
	// MaxDays bounds the time that is asked for, in days, and MaxGroups the groups of an answer.
	MaxDays   = 400
	MaxGroups = 1_000
)

// Usage is the kind of the line of a settled request. Every other kind is that of an entry.
const Usage ledger.EntryKind = "usage"

// Place is the place of a line among the lines of its account.
type Place struct {
	At time.Time
	N  int32
}

// Line is one line of an account's passbook.
type Line struct {
	Place
	Kind    ledger.EntryKind
	Amount  money.NanoUSD
	Balance money.NanoUSD
	// Request is zero for an entry.
	Request ids.RequestID
	// Entry is zero for a request, and Model empty for an entry.
	Entry ids.EntryID
	Model string
	// BusinessID says what an entry is about.
	BusinessID string
}

// Filter chooses lines of an account.
type Filter struct {
	Period
	// Kind is empty for all kinds.
	Kind ledger.EntryKind
}

// Subject is the word for what a line is about.
type Subject string

// The subjects.
const (
	Request    Subject = "request"
	Checkout   Subject = "checkout"
	Deposit    Subject = "deposit"
	Conversion Subject = "conversion"
	Grant      Subject = "grant"
	Penalty    Subject = "penalty"
	Dispute    Subject = "dispute"
	Correction Subject = "correction"
)

// kindInfo is what people read of the lines of a kind.
type kindInfo struct {
	text    string
	subject Subject
	// credit reports whether a line above zero is credit that somebody paid or was given, for
	// which there is a receipt.
	credit bool
}

// kinds are all kinds that may move a consumer's credit; a test compares them with the
// rules of the database.
var kinds = map[ledger.EntryKind]kindInfo{
	Usage:                    {"Usage", Request, false},
	ledger.CardTopUpPaid:     {"Card top-up", Checkout, true},
	ledger.CardReversed:      {"Card payment taken back", Dispute, false},
	ledger.CardDebtPaid:      {"Debt of a card payment repaid", Dispute, false},
	ledger.CardDisputeWon:    {"Dispute decided for the account", Dispute, false},
	ledger.USDCDeposited:     {"USDC deposit", Deposit, true},
	ledger.NativeDeposited:   {"Coin deposit", Deposit, true},
	ledger.DepositMatched:    {"Deposit", Deposit, true},
	ledger.DepositReversed:   {"Deposit that its chain no longer has", Deposit, false},
	ledger.EarningsCredited:  {"Earnings turned into credit", Conversion, true},
	ledger.GoodwillGrant:     {"Credit given", Grant, true},
	ledger.VerificationGrant: {"Credit given", Grant, true},
	// The platform writes itself no receipts.
	ledger.PlaygroundGrant:  {"Budget of the playground", Grant, false},
	ledger.RequestRefunded:  {"Refund of a request", Request, false},
	ledger.GoodwillRefunded: {"Refund of a request", Request, false},
	ledger.AnswerBroken:     {"Refund of an answer that broke off", Request, false},
	ledger.SlashForfeited:   {"Compensation from a provider's collateral", Penalty, false},
	ledger.ChainSlashed:     {"Compensation from a provider's collateral", Penalty, false},
	ledger.Reversal:         {"Correction", Correction, false},
}

// Kinds returns all kinds that lines may have, in no order.
func Kinds() []ledger.EntryKind { return slices.Collect(maps.Keys(kinds)) }

// Known reports whether lines may have a kind.
func Known(k ledger.EntryKind) bool {
	_, ok := kinds[k]
	return ok
}

// KindOf reads a kind; the empty kind where lines have none of that name.
func KindOf(text string) ledger.EntryKind {
	if k := ledger.EntryKind(text); Known(k) {
		return k
	}
	return ""
}

// IsCredit reports whether an entry of this kind that adds to credit has a receipt.
func IsCredit(k ledger.EntryKind) bool { return kinds[k].credit }

// IsRefund reports whether an entry of this kind gives back what a request was charged.
func IsRefund(k ledger.EntryKind) bool {
	return k == ledger.RequestRefunded || k == ledger.GoodwillRefunded || k == ledger.AnswerBroken
}

// Text says in words what lines of a kind are.
func Text(k ledger.EntryKind) string {
	if info, ok := kinds[k]; ok {
		return info.text
	}
	return "Entry"
}

// Text says in words what a line is.
func (l Line) Text() string {
	if l.Kind == Usage {
		return Text(Usage) + " of " + l.Model
	}
	return Text(l.Kind)
}

// ID is the id of the request or of the entry.
func (l Line) ID() string {
	if l.Kind == Usage {
		return l.Request.String()
	}
	return l.Entry.String()
}

// About returns what a line is about: a word and an id, which is the entry's where consumers
// know no other.
func (l Line) About() (Subject, string) {
	subject := kinds[l.Kind].subject
	switch subject {
	case Request:
		if l.Kind == Usage {
			return subject, l.Request.String()
		}
		return subject, l.BusinessID
	case Grant, Penalty, Dispute: // consumers do not know an operator's key, nor others' ids
		return subject, l.Entry.String()
	default:
		return subject, l.BusinessID
	}
}

// Link is the path under which more is told of what a line is about; empty where nothing
// more is.
func (l Line) Link() string {
	switch subject, id := l.About(); subject {
	case Request:
		return RequestLink(id)
	case Checkout:
		return "/api/v1/consumer/checkout/" + id
	case Deposit:
		return "/api/v1/consumer/deposits"
	default:
		return ""
	}
}

// RequestLink is the path of a request's receipt.
func RequestLink(id string) string { return "/api/v1/requests/" + id }

// invalid is the error for a parameter that cannot be.
func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
