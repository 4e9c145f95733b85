package subscription

import (
	"context"
	"errors"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Store keeps subscriptions. Its clock is the database's.
type Store interface {
	// Price returns the price of a plan that is sold, or ErrNotSold.
	Price(ctx context.Context, plan string) (money.NanoUSD, error)
	// Current returns the subscription that has not ended, or else the last one, or ErrNone.
	Current(ctx context.Context, account ids.AccountID) (Subscription, error)
	// Begin keeps a subscription that is incomplete, unless the account has one that has not ended,
	// and returns the one that stands. Its errors are ErrHasPlan, and ErrNone without an account.
	Begin(ctx context.Context, b Subscription) (Subscription, error)
	// SetCancel has the subscription of an account end with its period, or go on. One that nobody
	// has paid ends at once. ErrNone says that there is none that has not ended.
	SetCancel(ctx context.Context, account ids.AccountID, cancel bool) (Subscription, error)
	// Hear commits what follows from news, in one transaction: the invoice, line 11, the payment,
	// and the plan of the account. The errors are ErrNone and ErrDiffers.
	Hear(ctx context.Context, n News, newID func() (ids.EntryID, error)) error
	// GiveBack keeps money that went back, once, and posts it. The subscription whose last invoice
	// went back whole ends. Its errors are ErrNoInvoice, ErrDiffers and ErrExceeds.
	GiveBack(ctx context.Context, r Return, newID func() (ids.EntryID, error)) error
	// AskRefund has an invoice given back, once, for an operator. The subscription whose last
	// invoice it is ends at once. Its error is ErrNoInvoice.
	AskRefund(ctx context.Context, invoice, memo string) error
	// Invoices lists the invoices of an account, the newest first. ErrNone says that there is no such account.
	Invoices(ctx context.Context, account ids.AccountID, limit int) ([]PaidPeriod, error)
	// TakeDue takes subscriptions at whose clock it is time to look, TakeTells those of which the
	// card processor is to be told, and TakeRefunds invoices to give back.
	TakeDue(ctx context.Context, limit int) ([]Subscription, error)
	TakeTells(ctx context.Context, limit int) ([]Subscription, error)
	TakeRefunds(ctx context.Context, limit int) ([]Refund, error)
	// Tick does what the clock does to a subscription.
	Tick(ctx context.Context, b Subscription) error
	// Told notes that the card processor knows how a subscription stands.
	Told(ctx context.Context, b Subscription) error
	// RefundEnded ends the tries of a refund that a person must see to.
	RefundEnded(ctx context.Context, invoice string) error
}

// The errors of a Processor. Every other error may pass.
var (
	// ErrGone is the error for a subscription that the processor has ended.
	ErrGone = errors.New("the card processor has ended the subscription")
	// ErrRefused is the error for a refund that the processor will never make, and ErrFailed for one
	// that the card did not take.
	ErrRefused = errors.New("the card processor refuses the refund")
	ErrFailed  = errors.New("the card did not take the refund")
)

// Processor is what the card processors do for subscriptions.
type Processor interface {
	// SetCancel has a subscription end with its period, or go on. Its error is ErrGone.
	SetCancel(ctx context.Context, b Subscription) error
	// End ends a subscription at once. A repeat changes nothing.
	End(ctx context.Context, b Subscription) error
	// Refund gives an invoice back, once. made is false while that is not decided. Its errors are
	// ErrRefused and ErrFailed.
	Refund(ctx context.Context, r Refund) (back Return, made bool, err error)
}

// Pages opens pages on which a plan is bought.
type Pages interface {
	// CheckReturn refuses an address to which a page may not lead. Empty is the platform's own.
	CheckReturn(address string) error
	// Open opens the page of an account for the key of an order, once.
	Open(ctx context.Context, account ids.AccountID, o Order, price money.NanoUSD) (Page, error)
	// Page reads a page.
	Page(ctx context.Context, checkout string) (Page, error)
}

// Order is what a consumer asks for: a plan, where its page leads afterwards, which is empty for the
// platform's own, and the Idempotency-Key.
type Order struct{ Plan, ReturnURL, Key string }

// Page is a page on which a plan may be bought.
type Page struct {
	Checkout, URL string
	// Open reports whether it can be paid.
	Open bool
}

// Counters reads what is used of the plan of an account.
type Counters interface {
	Of(ctx context.Context, account ids.AccountID) (*plan.Subscription, error)
}
