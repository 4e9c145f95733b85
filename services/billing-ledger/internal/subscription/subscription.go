// Package subscription sells plans by the month. A subscription is incomplete until its first
// invoice is paid, active while its period is paid, past due when a period has ended and the next
// one is not paid, and ended for ever. An account has one that has not ended.
//
// The card processor charges, and its invoices decide: a paid invoice joins the pool of the month
// in which it was paid, and its period is covered until Grace after its end. Where the month is
// closed already, because the news came late, the invoice joins the month of the news. The state
// follows from paid invoices and from the clock of the database, never from what the processor
// calls the subscription, nor from the order of its news. So news may come twice, late and in any
// order.
//
// A payment that a consumer has nothing of is given back: of a period that was over when it was
// paid, beside another subscription or an operator's plan, and behind the end of a subscription
// that was cancelled or refunded. A payment behind the end of one that was not paid in time begins
// another subscription.
//
// Whoever cancels keeps the plan to the end of the period, and may go on until then. A refund of
// the last invoice ends the plan at once. It lowers the pool of its own month, and never a closed
// one.
package subscription

import (
	"errors"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Grace is for how long a plan goes on after a period that is not followed by a paid one.
const Grace = 72 * time.Hour

// RetryFor is for how long after the end of a period that was not followed by a paid one the card
// processor may go on to try the card. A payment until then begins anew.
const RetryFor = 30 * 24 * time.Hour

type kind struct{}

// ID names a subscription.
type ID = ids.Of[kind]

// Cause is why a subscription ended.
type Cause string

// The causes.
const (
	// Abandoned is the end of one that was never paid.
	Abandoned Cause = "abandoned"
	// Cancelled is the end with the period, as the consumer wished.
	Cancelled Cause = "cancelled"
	// Unpaid is the end Grace after a period that no paid period followed.
	Unpaid Cause = "unpaid"
	// WasRefunded is the end by the refund of the last invoice.
	WasRefunded Cause = "refunded"
)

// Causes returns all causes.
func Causes() []Cause { return []Cause{Abandoned, Cancelled, Unpaid, WasRefunded} }

// Subscription is one subscription of an account.
type Subscription struct {
	ID      ID
	Account ids.AccountID
	Plan    string
	Price   money.NanoUSD
	// Checkout is the page on which it began, and Object the processor's subscription, empty until
	// it is known.
	Checkout, Object string
	Processor        string
	State            State
	// PeriodStart and PeriodEnd are those of the last paid invoice; zero until then.
	PeriodStart, PeriodEnd time.Time
	// Cancel reports whether it ends with its period.
	Cancel bool
	// PageOver reports whether nobody can pay on the page any more.
	PageOver bool
	Cause    Cause
}

// Until is when the plan of the subscription ends unless another period is paid.
func (s Subscription) Until() time.Time {
	if s.Cancel {
		return s.PeriodEnd
	}
	return s.PeriodEnd.Add(Grace)
}

// Invoice is a period that was paid.
type Invoice struct {
	ID                     string
	PeriodStart, PeriodEnd time.Time
	Paid                   time.Time
	Payment                Payment
}

// PaidPeriod is a paid invoice as operators see it.
type PaidPeriod struct {
	// ID is the card processor's.
	ID, Plan               string
	Amount, Returned       money.NanoUSD
	PeriodStart, PeriodEnd time.Time
	PaidAt                 time.Time
	// Month is the month whose pool the invoice joined, YYYY-MM.
	Month string
	// RefundCause is why the invoice is given back; empty for an invoice that is not. RefundOpen reports whether the card
	// processor is still to be asked.
	RefundCause string
	RefundOpen  bool
	// Ends reports whether a refund ends a subscription that goes on now.
	Ends bool
}

// Payment is what a card was charged for an invoice, and what the processor kept of it.
type Payment struct {
	ID, CostID  string
	Total, Cost money.NanoUSD
	// Card is a digest of the card; nil where it is not known.
	Card []byte
}

// News is what a card processor says of a subscription.
type News struct {
	// Checkout is ours, and Object the processor's subscription.
	Checkout, Object string
	Account          ids.AccountID
	// Over reports whether the processor has ended it.
	Over bool
	// Invoice is an invoice that was paid; nil for none.
	Invoice *Invoice
}

// Return is money that goes back to the card's owner.
type Return struct {
	ID, Payment string
	Amount      money.NanoUSD
	// Disputed reports whether it is a dispute, which freezes the account, and Over whether that ended.
	Disputed, Over bool
}

// The errors of a Store.
var (
	// ErrNone is the error for a subscription that there is not.
	ErrNone = errors.New("no such subscription")
	// ErrNoInvoice is the error for an invoice that there is not.
	ErrNoInvoice = errors.New("no such invoice")
	// ErrNotSold is the error for a plan that has no price.
	ErrNotSold = errors.New("no such plan is sold")
	// ErrHasPlan is the error for an account that an operator has put on a plan.
	ErrHasPlan = errors.New("an operator has put the account on a plan")
	// ErrDiffers is the error for news that contradict what is known: of another subscription of
	// the processor, or with a payment of another invoice.
	ErrDiffers = errors.New("the card processor said otherwise before")
	// ErrExceeds is the error for more than was paid.
	ErrExceeds = errors.New("more goes back than was paid")
)

// Refund is an invoice that is to be given back.
type Refund struct {
	Invoice, Payment, Processor string
	Amount                      money.NanoUSD
}
