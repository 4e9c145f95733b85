package card

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/ids"
)

// The errors of a Store.
var (
	// ErrNoCheckout is the error for a checkout that does not exist.
	ErrNoCheckout = errors.New("no such checkout")
	// ErrNoRefund is the error for a refund that does not exist.
	ErrNoRefund = errors.New("no such refund")
	// ErrNoAccount is the error for an account that does not exist.
	ErrNoAccount = errors.New("no such account")
	// ErrReused is the error for an id that stands for something else.
	ErrReused = errors.New("the id stands for something else")
	// ErrTooMany is the error for a provider or a consumer with MaxOpen open checkouts, and for a
	// payment with MaxOwnRefunds refunds.
	ErrTooMany = errors.New("too many open checkouts, or refunds")
	// ErrNotPaid is the error for what only a paid checkout allows.
	ErrNotPaid = errors.New("the checkout is not paid")
	// ErrPaidTwice is the error for a second payment of a checkout, and for a payment of two.
	ErrPaidTwice = errors.New("the checkout has another payment, or the payment another checkout")
	// ErrExceeds is the error for more than is left of a payment.
	ErrExceeds = errors.New("less than that is left of the payment")
	// ErrSpent is the error for credit that an account no longer has.
	ErrSpent = errors.New("less credit than that is unspent")
	// ErrNotOwn is the error for a refund that its consumer may not ask for.
	ErrNotOwn = errors.New("the account is frozen, or a payment of it was disputed: operators decide")
	// ErrTooOld is the error for a consumer's own refund after OwnRefundFor.
	ErrTooOld = errors.New("the payment is older than 14 days: operators decide")
	// ErrRefundUnderWay is the error for a reversal beyond what is left while a refund has
	// not ended, which may make room for it.
	ErrRefundUnderWay = errors.New("a refund of the payment is under way")
)

// Store keeps checkouts and what became of them. Its clock is the database's.
type Store interface {
	CheckoutStore
	EventStore
	RefundStore
	LookStore
	// Raise keeps an alarm, and reports whether it is new.
	Raise(ctx context.Context, a Alarm) (fresh bool, err error)
}

// CheckoutStore keeps checkouts.
type CheckoutStore interface {
	// Open keeps a new checkout, or returns the checkout of its id. Its errors are
	// ErrTooMany and ErrNoAccount.
	Open(ctx context.Context, c Checkout, lifetime time.Duration) (Checkout, error)
	// SetSession notes the processor's session of a checkout, once. Its errors are
	// ErrNoCheckout and ErrReused.
	SetSession(ctx context.Context, id CheckoutID, s Session) (Checkout, error)
	// Checkout reads a checkout, or returns ErrNoCheckout.
	Checkout(ctx context.Context, id CheckoutID) (Checkout, error)
	// OfAccount lists the checkouts of a consumer but those of collateral, the newest first, made
	// before a checkout, or all.
	OfAccount(ctx context.Context, account ids.AccountID, before CheckoutID, limit int) ([]Checkout, error)
	// Payments lists the paid collateral of a provider, the oldest first.
	Payments(ctx context.Context, provider ids.ProviderID, limit int) ([]Payment, error)
	// Changes lists changes behind a number.
	Changes(ctx context.Context, after int64, limit int) ([]Change, error)
}

// LookStore commits what a look at the processor has found.
type LookStore interface {
	// Pay moves a checkout to paid, and posts line 1 or 23 and card_cost, once. Of a checkout that
	// was expired it keeps an alarm, and returns it. Its errors are ErrNoCheckout and
	// ErrPaidTwice.
	Pay(ctx context.Context, id CheckoutID, c Charge, newID func() (ids.EntryID, error)) (*Alarm, error)
	// Complete moves a checkout of a plan to paid. Its payments are those of its invoices.
	Complete(ctx context.Context, id CheckoutID) error
	// Expire moves a checkout to expired, unless it is paid.
	Expire(ctx context.Context, id CheckoutID) error
	// Reverse takes back what went back at the processor, once, and posts it. Refunds that wait
	// for the bank are reversed where less is left. Of what was refunded already it keeps an
	// alarm, and returns it if it is new. Its errors are ErrNotPaid, ErrExceeds,
	// ErrRefundUnderWay, and ErrReused for what names another checkout than its payment too.
	Reverse(ctx context.Context, r Return, newID func() (ids.EntryID, error)) (*Alarm, error)
	// Win gives back what a reversal took, once, and posts it: a dispute was won, or a refund of
	// others failed. What was never reversed has nothing to give back. Its errors are ErrNotPaid and ErrReused.
	Win(ctx context.Context, r Return, newID func() (ids.EntryID, error)) error
	// Lose notes that a dispute ended against us: it no longer freezes its account. Its errors are
	// those of Win.
	Lose(ctx context.Context, r Return) error
	// TakeDebts takes debts that are due, and RepayDebt pays one from what its account has unheld.
	// What is left after DebtLostAfter is lost.
	TakeDebts(ctx context.Context, limit int) ([]string, error)
	RepayDebt(ctx context.Context, reversal string, newID func() (ids.EntryID, error)) error
	// EndDisputes ends the disputes of which nobody has heard for DebtLostAfter.
	EndDisputes(ctx context.Context, limit int) error
	// TakeCheckouts takes checkouts that are due.
	TakeCheckouts(ctx context.Context, every time.Duration, limit int) ([]Due, error)
	// StopLooking ends the looks at a checkout that a person must see to.
	StopLooking(ctx context.Context, id CheckoutID) error
	// TakeListing returns from when on the processor's objects are to be listed, and the
	// time of the database; due is false where another process has just done so.
	TakeListing(ctx context.Context, processor string, every time.Duration) (since, now time.Time, due bool, err error)
	// Listed notes that all that was made before a time was listed.
	Listed(ctx context.Context, processor string, through time.Time) error
	// Unknown returns those of some objects of which nothing has come yet.
	Unknown(ctx context.Context, list []Object) ([]Object, error)
}

// EventStore keeps events.
type EventStore interface {
	// KeepEvent keeps an event, and is durable when it returns. Of an event that was kept
	// before it returns the object that the event named then.
	KeepEvent(ctx context.Context, e Event) (Object, error)
	// TakeEvents takes events that are due, and moves them on, the further the more often
	// they were taken.
	TakeEvents(ctx context.Context, limit int) ([]Event, error)
	// EventHandled ends an event.
	EventHandled(ctx context.Context, id string) error
}

// RefundStore keeps refunds.
type RefundStore interface {
	// AskRefund keeps a new refund, or returns the refund of its id. One of collateral is reversed at
	// once where less is left because of reversals. One of credit takes the credit, and without an
	// amount all that may be given back. Its errors are ErrNoCheckout, also for a payment of another
	// account, ErrNotPaid, ErrExceeds, and ErrSpent for credit that the account no longer has unheld. Of
	// a consumer's own refund they are also ErrNotOwn, ErrTooOld, ErrTooMany, and ErrSpent for what is
	// not Unspent.
	AskRefund(ctx context.Context, r Refund, newID func() (ids.EntryID, error)) (Refund, error)
	// RefundsOf lists the refunds of an account's credit, the newest first, asked for before a refund, or
	// all.
	RefundsOf(ctx context.Context, account ids.AccountID, before RefundID, limit int) ([]Refund, error)
	// Refund reads a refund, or returns ErrNoRefund.
	Refund(ctx context.Context, id RefundID) (Refund, error)
	// EndRefund ends a refund by an attempt, once, and returns how it stands. One of credit that is
	// not made gives the credit back. Its errors are ErrNoRefund, and ErrReused for one that has
	// ended otherwise or has another attempt.
	EndRefund(ctx context.Context, r Refund, to RefundState, objectID string, newID func() (ids.EntryID, error)) (
		RefundState, error)
	// FailRefund notes that the card did not take an attempt, once, and has the refund asked for
	// again. It posts what the books had paid for the attempt. Of the last attempt of the card it
	// keeps an alarm, and returns it. Its errors are ErrNoRefund, and ErrReused for an attempt that
	// ended otherwise.
	FailRefund(ctx context.Context, r Refund, objectID string, newID func() (ids.EntryID, error)) (*Alarm, error)
	// FromBank is what of a payment was paid back from the bank.
	FromBank(ctx context.Context, paymentID string) (Cents, error)
	// TakeRefunds takes refunds that are due.
	TakeRefunds(ctx context.Context, limit int) ([]Refund, error)
}
