// Package card takes money by card. A checkout is one page of a card processor on which
// somebody may pay; the processor's session has it there. What is paid is collateral of a
// provider, credit of a consumer, or the first period of a plan.
//
// Credit costs a fee beside it, which covers what the card processor keeps, and which is shown
// before anybody pays.
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
// A refund that the card does not take is made again, up to MaxAttempts times, also if that is
// heard of long after the card processor said that the refund was made. What the books have paid
// for it is owed again then. After that it is the bank's.
//
// Nobody gets the same money twice. A refund ends as reversed, for ever, if the card's owner
// has taken so much back that less is left. What is taken back after it was refunded is owed.
//
// An expired checkout that is paid nevertheless is credited, with an alarm: the card's
// owner has paid, and the money belongs to nobody else. The provider can ask for it back.
//
// What waits is a row with a due time. A process takes a row by moving that time on, works
// without a transaction, and commits what it found. Two processes that take the same row,
// or a process that dies, repeat the work and change nothing.
package card

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
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

// MaxOpen bounds the checkouts of a provider, and those of a consumer, that can still be paid.
const MaxOpen = 5

const (
	// DebtLostAfter is how long a debt may be paid.
	DebtLostAfter = 90 * 24 * time.Hour
	// DebtInterval is the pause between two payments of a debt.
	DebtInterval = time.Minute
)

// BySettlement is who asks for refunds of collateral.
const BySettlement = "settlement"

// ByCardFor is how long after a payment its card takes a refund.
const ByCardFor = 180 * 24 * time.Hour

const (
	// MaxAttempts is how often a card is asked to take a refund. The attempt after them is the
	// bank's.
	MaxAttempts = 3
	// AttemptInterval is the pause after an attempt that the card did not take.
	AttemptInterval = time.Hour
)

// Purpose is what is paid for.
type Purpose string

// The purposes.
const (
	// Collateral is paid by a provider.
	Collateral Purpose = "collateral"
	// TopUp is credit that a consumer buys.
	TopUp Purpose = "topup"
	// PlanPurpose is a plan to which a consumer subscribes. Its payments are invoices of the
	// subscription; see Plans.
	PlanPurpose Purpose = "plan"
)

// Checkout is one page on which somebody may pay.
type Checkout struct {
	ID      CheckoutID
	Purpose Purpose
	// Provider is who pays collateral, and zero for every other purpose.
	Provider ids.ProviderID
	// Account is the consumer account of who pays. Only collateral may have none.
	Account ids.AccountID
	// Plan is the plan that is bought; empty for every other purpose.
	Plan string
	// Amount is what is paid for, and Fee what is paid beside it. Only credit has a fee: of
	// collateral and plans exactly the price is paid, and the platform bears the processor's cost.
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
	return c.Purpose == o.Purpose && c.Provider == o.Provider && c.Account == o.Account && c.Plan == o.Plan &&
		c.Amount == o.Amount && c.ReturnURL == o.ReturnURL && c.Processor == o.Processor && c.Livemode == o.Livemode
}

// Payment is what a paid checkout is made of, with what of it went back.
type Payment struct {
	Checkout Checkout
	// Reversed went back without our doing, in no dispute that was won, and Refunded by refunds
	// that were asked for.
	Reversed, Refunded Cents
}

// Left is what has not gone back. It is below zero where the card's owner took back what was
// refunded too.
func (p Payment) Left() Cents { return p.Checkout.Total() - p.Reversed - p.Refunded }

// Refund is a part of a payment that is given back because somebody here asked for it.
type Refund struct {
	ID       RefundID
	Checkout CheckoutID
	Amount   Cents
	State    RefundState
	// Purpose is the payment's; empty for collateral. By is who asked, in a few words.
	Purpose Purpose
	By      string
	// Account is whose credit it is; zero for collateral. Own reports whether the account's consumer
	// asks, and Note is why an operator does.
	Account ids.AccountID
	Own     bool
	Note    string
	// AskedAt is when it was asked for, and EndedAt when it ended; zero until then.
	AskedAt, EndedAt time.Time
	// Attempt counts from 1: each that the card did not take is followed by another.
	Attempt int
	// OnCard reports whether the card is asked at all, which is decided once, when the
	// refund is asked for.
	OnCard bool
	// PaymentID, Total, Livemode and Processor are the payment's.
	PaymentID string
	Total     Cents
	Livemode  bool
	Processor string
	// ObjectID is the processor's refund; empty until it is made by card.
	ObjectID string
}

// Key names the attempt for the card processor and the books.
func (r Refund) Key() string { return ledger.RefundKey(r.ID.String(), r.Attempt) }

// parseKey reads the key of an attempt.
func parseKey(key string) (id RefundID, attempt int, err error) {
	refund, number, numbered := strings.Cut(key, "/")
	attempt = 1
	if numbered {
		if attempt, err = strconv.Atoi(number); err != nil {
			return id, 0, fmt.Errorf("read the number of an attempt: %w", err)
		}
	}
	if err := id.UnmarshalText([]byte(refund)); err != nil {
		return id, 0, fmt.Errorf("read the refund of an attempt: %w", err)
	}
	if id.IsZero() || ledger.RefundKey(id.String(), attempt) != key || attempt > MaxAttempts {
		return id, 0, errors.New("it is no key of an attempt")
	}
	return id, attempt, nil
}

// ChangeKind says what happened to collateral.
type ChangeKind string

// The kinds of changes.
const (
	ChangePaid        ChangeKind = "paid"
	ChangeReversed    ChangeKind = "reversed"
	ChangeDisputeWon  ChangeKind = "dispute_won"
	ChangeRefundEnded ChangeKind = "refund_ended"
	// ChangeRefundFailed is an attempt that the card did not take, which is followed by another.
	ChangeRefundFailed ChangeKind = "refund_failed"
	ChangeExpired      ChangeKind = "expired"
)

// Change is one event of a payment. Changes are numbered in the order of commits.
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
	// AlarmPaidTwice is a second payment of one checkout, or one payment of two.
	AlarmPaidTwice AlarmReason = "paid_twice"
	// AlarmExceeds is money that went back beyond its payment, or that was refunded too: then
	// the provider owes it.
	AlarmExceeds AlarmReason = "exceeds"
	// AlarmRefundFailed is a refund that its card did not take MaxAttempts times: the bank is to
	// pay it.
	AlarmRefundFailed AlarmReason = "refund_failed"
	// AlarmMissing is an object that the processor does not know.
	AlarmMissing AlarmReason = "missing"
	// AlarmEventDiffers is an event that names another object than before.
	AlarmEventDiffers AlarmReason = "event_differs"
)
