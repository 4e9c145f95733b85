// Package payable lists what vendors of gateway models are owed, and records payments of their invoices.
//
// A vendor is owed the balance of its account l:vendor:payable: the cost of all that it served, at the
// prices that the holds pinned, less what was paid. An operator pays an invoice at the bank, and records
// the payment here. An invoice is paid once, because its number is the idempotency key within its vendor.
//
// An invoice may ask for another amount than the count of the same service. The operator then gives both.
// The count is taken from what the vendor is owed, the bank pays the amount, and the margin of usage bears
// the difference. So no difference of a paid period stays owed.
//
// The count may not be more than what the vendor is owed. There is no advance, because the chart of
// accounts has no asset for what a vendor would owe the platform.
//
// Above One, two different operators who signed in say the same of an invoice. The first asks,
// and the second pays. What differs from what was asked is asked anew, so a slip of the pen of
// one of them pays nothing, and the number is not lost.
//
// Two say it also of a correction above a tenth of the count and MaxCorrection, because a count of
// next to nothing would pay an invoice that nothing is owed for. The invoices of a vendor that
// were paid within Window count as one with the next, because a large one would otherwise be paid
// in small parts.
package payable

import (
	"context"
	"regexp"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// One is the most that one operator pays a vendor within Window. For one payout to a provider the
// bound is the same.
const One = 10_000 * money.USD

// MaxCorrection is the most that one operator corrects where a tenth of the count is less.
const MaxCorrection = 100 * money.USD

// Window is how long an invoice that was paid counts towards the next one of its vendor.
const Window = 24 * time.Hour

// Bounds of a page of balances, and of the waiting invoices that are shown of a vendor.
const (
	DefaultPage = 20
	MaxPage     = 100
	MaxWaiting  = 10
)

// Number is the number of an invoice, in capitals.
type Number string

// numberPattern is the form of a number. The database checks the same form.
var numberPattern = regexp.MustCompile(`^[A-Z0-9]([A-Z0-9 ._/#:-]{0,62}[A-Z0-9])?$`)

// ParseNumber reads a number as somebody typed it. Capitals, and spaces at the ends, make no difference,
// because otherwise an invoice that is typed in two ways would be paid twice.
func ParseNumber(text string) (n Number, ok bool) {
	n = Number(strings.ToUpper(strings.TrimSpace(text)))
	return n, numberPattern.MatchString(string(n))
}

// Invoice is what an operator says of an invoice.
type Invoice struct {
	Vendor ids.ProviderID
	Number Number
	// Amount is what the invoice asks for. Counted is the ledger's count of the same service.
	Amount, Counted money.NanoUSD
	// Note says what the payment is for.
	Note string
}

// BusinessID is the business id of the entries that pay the invoice.
func (i Invoice) BusinessID() string { return i.Vendor.String() + "/" + string(i.Number) }

// Correction returns the amount less the count. It is below zero where the invoice asks for less.
func (i Invoice) Correction() money.NanoUSD { return i.Amount - i.Counted }

// sum is what the invoice comes to.
func (i Invoice) sum() Sum {
	return Sum{Amount: i.Amount, Counted: i.Counted, Corrected: max(i.Correction(), -i.Correction())}
}

// Sum is what invoices come to.
type Sum struct {
	Amount, Counted money.NanoUSD
	// Corrected adds up the corrections, up or down, so that two of them never cancel out.
	Corrected money.NanoUSD
}

func (s Sum) plus(o Sum) Sum {
	return Sum{Amount: s.Amount + o.Amount, Counted: s.Counted + o.Counted, Corrected: s.Corrected + o.Corrected}
}

// large reports whether invoices that come to s need two operators. The database checks the same
// of each invoice that is paid.
func (s Sum) large() bool {
	return max(s.Amount, s.Counted) > One || s.Corrected > max(s.Counted/10, MaxCorrection)
}

// says reports whether two invoices have the same figures. A repeat may have another note, and the
// first one stays.
func (i Invoice) says(other Invoice) bool {
	return i.Amount == other.Amount && i.Counted == other.Counted
}

// State is the state of a payment.
type State string

// The states.
const (
	// Waiting is a payment that waits for the second operator.
	Waiting State = "waiting"
	Paid    State = "paid"
)

// Payment is an invoice that was asked for or paid.
type Payment struct {
	Invoice
	// AskedBy and PaidBy are operators, as operator:name. PaidBy is empty, and PaidAt is zero, while
	// the payment waits.
	AskedBy, PaidBy string
	AskedAt, PaidAt time.Time
}

// State returns the state of the payment.
func (p Payment) State() State {
	if p.PaidBy == "" {
		return Waiting
	}
	return Paid
}

// Balance is what a vendor is owed and was paid.
type Balance struct {
	Vendor ids.ProviderID
	// Owed is what the vendor is owed now. Paid is all that the bank has paid the vendor.
	Owed, Paid money.NanoUSD
	// LastMonth is the count of the vendor's service in the last whole UTC month, on sealed days.
	LastMonth money.NanoUSD
	// Last is the newest payment that was made; nil for none. Waiting are the payments that wait for
	// the second operator, the oldest first, at most MaxWaiting.
	Last    *Payment
	Waiting []Payment
}

// Standing is what a call is decided on, under the lock on the vendor's account.
type Standing struct {
	// Before is the payment that is stored for the invoice; nil for none.
	Before *Payment
	Owed   money.NanoUSD
	// Lately is what the vendor was paid within Window.
	Lately Sum
	// Now is the database's time.
	Now time.Time
}

// Step is what a call does. Nothing is stored unless Changed is true.
type Step struct {
	Payment Payment
	Entries []ledger.Entry
	Changed bool
}

// Store keeps the invoices of vendors.
type Store interface {
	// VendorBalances lists at most limit vendors in the order of their ids, which are greater than
	// after.
	VendorBalances(ctx context.Context, after ids.ProviderID, limit int) ([]Balance, error)
	// PayVendor stores the payment that decide returns, and posts its entries. It does so in one
	// transaction, under the lock on the vendor's account, with an entry in the audit log where
	// something changed. It fails with ErrNoVendor for an unknown vendor, with ErrNotOwed where the
	// books owe the vendor less than the count, and as decide does.
	PayVendor(ctx context.Context, invoice Invoice, decide func(Standing) (Step, error)) (Payment, error)
}
