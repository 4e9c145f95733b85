// Package card takes money by card. A checkout is one page of a card processor on which
// somebody may pay; the processor's session has it there. What is paid is collateral of a
// provider.
//
// What a processor sends proves nothing: not its contents, and not its order. An event is
// a reason to fetch the object that it names, and the object decides. So an event that
// comes twice, late or never changes nothing: each checkout is looked at every five
// minutes until it is paid or expired, and a list of what was made at the processor finds
// what its events lost.
//
// A checkout is paid only by the session that was made for it, with the amount, the
// currency, the provider, the account, the purpose and the mode that were asked for.
// Anything else is an alarm for a person, and nothing is credited.
//
// An expired checkout that is paid nevertheless is credited, with an alarm: the card's
// owner has paid, and the money belongs to nobody else. The provider can ask for it back.
//
// What waits is a row with a due time. A process takes a row by moving that time on, works
// without a transaction, and commits what it found. Two processes that take the same row,
// or a process that dies, repeat the work and change nothing.
package card

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

type (
	checkoutKind struct{}
	refundKind   struct{}
)

type (
	// CheckoutID names a checkout. Who asks for the checkout makes it.
	CheckoutID = ids.Of[checkoutKind]
	// RefundID names a refund. Who asks for the refund makes it.
	RefundID = ids.Of[refundKind]
)

// Cents are whole cents of a US dollar.
type Cents int64

// Nano returns the same amount in nano-USD.
func (c Cents) Nano() money.NanoUSD { return money.NanoUSD(c) * (money.USD / 100) }

// Currency is what is paid in.
const Currency = "usd"

// MinAmount and MaxAmount bound what may be paid at once: 5 to 10,000 dollars.
const (
	MinAmount Cents = 5_00
	MaxAmount Cents = 10_000_00
)

// MaxOpen bounds the checkouts of a provider that can still be paid.
const MaxOpen = 5

// ByCardFor is how long after a payment its card takes a refund.
const ByCardFor = 180 * 24 * time.Hour

// Purpose is what is paid for.
type Purpose string

// Collateral is the one purpose so far: a provider pays collateral.
const Collateral Purpose = "collateral"

// Checkout is one page on which somebody may pay.
type Checkout struct {
	ID       CheckoutID
	Purpose  Purpose
	Provider ids.ProviderID
	// Account is the consumer account of who pays; zero for none.
	Account ids.AccountID
	// Amount is what is paid for, and Fee what is paid beside it. Collateral has no fee: the
	// provider pays exactly what it was shown, and the platform bears the processor's cost.
	Amount, Fee Cents
	Processor   string
	Livemode    bool
	ReturnURL   string
	// SessionID and URL are empty until the processor has made the session.
	SessionID, URL string
	State          State
	Created        time.Time
	Expires        time.Time
	// Paid is zero until it is paid.
	Paid time.Time
}

// Due is a checkout to look at. Over reports whether its time is over.
type Due struct {
	Checkout
	Over bool
}

// Total is what the card is charged.
func (c Checkout) Total() Cents { return c.Amount + c.Fee }

// same reports whether two checkouts were asked for alike.
func (c Checkout) same(o Checkout) bool {
	return c.Purpose == o.Purpose && c.Provider == o.Provider && c.Account == o.Account && c.Amount == o.Amount &&
		c.ReturnURL == o.ReturnURL && c.Processor == o.Processor && c.Livemode == o.Livemode
}

// Payment is what a paid checkout is made of, with what of it went back.
type Payment struct {
	Checkout Checkout
	// Reversed went back without our doing, and Refunded by refunds that were asked for.
	Reversed, Refunded Cents
}

// Left is what has not gone back.
func (p Payment) Left() Cents { return p.Checkout.Total() - p.Reversed - p.Refunded }

// ChangeKind says what happened to collateral.
type ChangeKind string

// The kinds of changes.
const (
	ChangePaid        ChangeKind = "paid"
	ChangeReversed    ChangeKind = "reversed"
	ChangeRefundEnded ChangeKind = "refund_ended"
	ChangeExpired     ChangeKind = "expired"
)

// Change is one thing that happened, numbered in the order of commits.
type Change struct {
	Number    int64
	Kind      ChangeKind
	Checkout  CheckoutID
	Provider  ids.ProviderID
	Reference string
	Amount    Cents
	Livemode  bool
	At        time.Time
	// Entry is zero where nothing was posted.
	Entry ids.EntryID
}

// Alarm is something for a person to look at. There is one for each reason and object.
type Alarm struct {
	Reason AlarmReason
	// Object is the processor's id of what it is about.
	Object string
	Detail string
}

// AlarmReason says what is wrong.
type AlarmReason string

// The reasons of alarms.
const (
	// AlarmForeign is an object that belongs to no checkout of ours.
	AlarmForeign AlarmReason = "foreign"
	// AlarmDiffers is an object that says otherwise than its checkout.
	AlarmDiffers AlarmReason = "differs"
	// AlarmPaidLate is a payment of a checkout that was expired. It is credited.
	AlarmPaidLate AlarmReason = "paid_late"
	// AlarmPaidTwice is a second payment of one checkout.
	AlarmPaidTwice AlarmReason = "paid_twice"
	// AlarmExceeds is money that went back beyond its payment.
	AlarmExceeds AlarmReason = "exceeds"
	// AlarmMissing is an object that the processor does not know.
	AlarmMissing AlarmReason = "missing"
	// AlarmEventDiffers is an event that names another object than before.
	AlarmEventDiffers AlarmReason = "event_differs"
)

// The errors of a Store.
var (
	// ErrNoCheckout is the error for a checkout that there is not.
	ErrNoCheckout = errors.New("no such checkout")
	// ErrNoAccount is the error for an account that there is not.
	ErrNoAccount = errors.New("no such account")
	// ErrReused is the error for an id that stands for something else.
	ErrReused = errors.New("the id stands for something else")
	// ErrTooMany is the error for a provider with MaxOpen open checkouts.
	ErrTooMany = errors.New("too many open checkouts")
	// ErrNotPaid is the error for what only a paid checkout allows.
	ErrNotPaid = errors.New("the checkout is not paid")
	// ErrPaidTwice is the error for a second payment.
	ErrPaidTwice = errors.New("the checkout has another payment")
	// ErrExceeds is the error for more than is left of a payment.
	ErrExceeds = errors.New("less than that is left of the payment")
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
	// Open keeps a new checkout, or returns the one that has its id. Its errors are
	// ErrTooMany and ErrNoAccount.
	Open(ctx context.Context, c Checkout, lifetime time.Duration) (Checkout, error)
	// SetSession notes the processor's session of a checkout, once. Its errors are
	// ErrNoCheckout and ErrReused.
	SetSession(ctx context.Context, id CheckoutID, s Session) (Checkout, error)
	// Checkout reads a checkout, or returns ErrNoCheckout.
	Checkout(ctx context.Context, id CheckoutID) (Checkout, error)
	// Payments lists the paid collateral of a provider, the oldest first.
	Payments(ctx context.Context, provider ids.ProviderID, limit int) ([]Payment, error)
	// Changes lists changes behind a number.
	Changes(ctx context.Context, after int64, limit int) ([]Change, error)
}

// LookStore commits what a look at the processor has found.
type LookStore interface {
	// Pay moves a checkout to paid, and posts line 23 and card_cost, once. Of a checkout that
	// was expired it keeps an alarm, and returns it. Its errors are ErrNoCheckout and
	// ErrPaidTwice.
	Pay(ctx context.Context, id CheckoutID, c Charge, newID func() (ids.EntryID, error)) (*Alarm, error)
	// Expire moves a checkout to expired, unless it is paid.
	Expire(ctx context.Context, id CheckoutID) error
	// Reverse takes back what went back at the processor, once, and posts it. Its errors are
	// ErrNotPaid, ErrExceeds, ErrRefundUnderWay and ErrReused.
	Reverse(ctx context.Context, r Return, newID func() (ids.EntryID, error)) error
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
