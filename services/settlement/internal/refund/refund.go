// Package refund returns collateral to those who put it there: all of a provider's at once, 7 days after the provider
// asked (settlement design, section 7; specification, "Transitions"; decisions, "Ladder").
//
// A refund is asked for while no payout, no penalty and no appeal of the provider is open, under the lock of the
// provider's row, and suspends the provider. The contracts are told at once. After 7 days it is looked again: a
// penalty that was opened meanwhile, and each part of a penalty that has not ended, holds the refund. Then it is
// paid, and until then it can be cancelled.
//
// Anybody may put something behind a provider, also whoever cannot be paid back: a contract that takes no coin, or an
// address that the token blocks. Such a position keeps a refund for a day. Then the contract is told that nobody asks
// for it any more, and the refund ends without it. So the position stays what it was, and its depositor can leave with
// it as before.
//
// What was paid by card stays collateral until the refund is paid: penalties take it until then, and a cancelled refund
// leaves no trace in the books. A card may not take what is refunded, also long after that was paid: then it is owed,
// and paid again. A payment that its card's owner takes back meanwhile is not paid a second time: what the books had on
// its way back becomes collateral again, or ends what the provider owes for it.
package refund

import (
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
)

// Every is how often a provider may ask for a refund, because each costs calls of contracts that the platform pays.
const Every = 24 * time.Hour

// Wait is the time from the request to the refund.
const Wait = 7 * 24 * time.Hour

const (
	// GiveUpAfter is how long after its time a position is tried to be paid back that refuses, and maxRefusals how many
	// calls of it there are at least.
	GiveUpAfter = 24 * time.Hour
	maxRefusals = 12
)

// MaxCardParts bounds the payments by card that one refund gives back.
const MaxCardParts = 100

// kindOfID makes ID a type of its own.
type kindOfID struct{}

// ID names one refund.
type ID = ids.Of[kindOfID]

// State is where a refund stands.
type State string

// The states.
const (
	// Asked waits for its time, and for the end of what holds it.
	Asked State = "asked"
	// Paying is being paid. Nobody takes it back any more.
	Paying State = "paying"
	// Paid is final, unless a card does not take what was paid.
	Paid State = "paid"
	// Repaying pays again what a card did not take. It keeps the provider from nothing.
	Repaying State = "repaying"
	// Cancelled is final.
	Cancelled State = "cancelled"
)

// States returns every state.
func States() []State { return []State{Asked, Paying, Paid, Repaying, Cancelled} }

// transitions is the whole machine. The database refuses every other pair.
var transitions = map[State][]State{Asked: {Paying, Cancelled}, Paying: {Paid}, Paid: {Repaying}, Repaying: {Paid}}

// Next returns the states that a state leads to.
func (s State) Next() []State { return transitions[s] }

// Refund is one refund. Times that have not come are zero.
type Refund struct {
	ID       ID
	Provider ids.ProviderID
	State    State
	// DueAt is Wait after AskedAt.
	AskedAt, DueAt, EndedAt time.Time
	Parts                   []Part
}

// PartState is where a part of a refund stands.
type PartState string

// The states of parts.
const (
	// PartAsked is a position whose refund the contract is to be asked for.
	PartAsked PartState = "asked"
	// PartRequested is a position whose refund the contract was asked for.
	PartRequested PartState = "requested"
	// PartOpened is a payment by card whose refund the books do not have.
	PartOpened PartState = "opened"
	// PartPosted is a payment by card that the books have on its way back.
	PartPosted PartState = "posted"
	// PartByCard is back on the card, and the books are to say so.
	PartByCard PartState = "card"
	// PartByBank waits for an operator, who pays it from the bank, unless the card's owner is first.
	PartByBank PartState = "bank"
	// PartFromBank was paid from the bank, and the books are to say so.
	PartFromBank PartState = "from_bank"
	// PartTakenBack went back to the card's owner before by another way. Nothing is paid, and the books are to say so.
	PartTakenBack PartState = "taken_back"
	// PartDone is an end: the position is empty, or the payment is back. Only a card that does not take the payment
	// changes that.
	PartDone PartState = "done"
	// PartReversed is final: nothing was paid, because the card's owner had the money.
	PartReversed PartState = "reversed"
	// PartCancelled is final.
	PartCancelled PartState = "cancelled"
)

// PartStates returns every state of parts.
func PartStates() []PartState {
	return []PartState{PartAsked, PartRequested, PartOpened, PartPosted, PartByCard, PartByBank, PartFromBank,
		PartTakenBack, PartDone, PartReversed, PartCancelled}
}

var partTransitions = map[PartState][]PartState{
	PartAsked:     {PartRequested, PartDone, PartCancelled},
	PartRequested: {PartAsked, PartDone, PartCancelled},
	PartOpened:    {PartPosted, PartCancelled},
	PartPosted:    {PartByCard, PartByBank, PartTakenBack},
	PartByCard:    {PartDone, PartPosted},
	PartDone:      {PartPosted},
	PartByBank:    {PartFromBank, PartTakenBack},
	PartTakenBack: {PartReversed},
	PartFromBank:  {PartDone},
}

// Next returns the states that a state leads to.
func (s PartState) Next() []PartState { return partTransitions[s] }

// Final reports whether the state is an end of a part.
func (s PartState) Final() bool { return s == PartDone || s == PartCancelled || s == PartReversed }

// PartID names one part.
type PartID = ids.Of[kindOfPart]

type kindOfPart struct{}

// Part is one position of a refund, or one payment by card.
type Part struct {
	ID       PartID
	Refund   ID
	Provider ids.ProviderID
	// Chain is 0 by card.
	Chain     chain.ID
	Depositor chain.Address
	// Checkout and Cents are of a payment by card.
	Checkout string
	Cents    int64
	State    PartState
	// Action and Attempt name the call that was sent last; Attempt counts the calls of one action from 1.
	Action  Action
	Attempt int
	// CardAttempt is the attempt of the ledger to give a payment by card back, counted from 1.
	CardAttempt int
	// FromBank reports whether the bank paid what a card could not take back.
	FromBank bool
	// Tx is the transaction by which a position was paid back since the refund was asked for, and Amount what it paid.
	Tx     chain.Hash
	Amount chain.Amount
}

// PaidBy says by which way the part was paid: chain, card or bank. It is empty until then.
func (p Part) PaidBy() string {
	switch {
	case p.State != PartDone, !p.ByCard() && p.Tx == (chain.Hash{}):
		return ""
	case !p.ByCard():
		return "chain"
	case p.FromBank:
		return "bank"
	}
	return "card"
}

// ByCard reports whether the part is a payment by card.
func (p Part) ByCard() bool { return p.Chain == 0 }

// Action is what is done for a part.
type Action string

// The actions. The first three are calls of the contract.
const (
	None    Action = ""
	Request Action = "request"
	Cancel  Action = "cancel"
	Execute Action = "execute"

	PostAsked Action = "post_asked"
	PayBack   Action = "pay_back"
	PostPaid  Action = "post_paid"
	PostUndo  Action = "post_undo"
)

// Key is the name of the key that signs an action on a chain. What anybody may call is the gas key's.
func (a Action) Key() string {
	if a == Execute {
		return "gas"
	}
	return "operator"
}

// Decision is what is to be done for a part: an action, or a new state.
type Decision struct {
	Action Action
	State  PartState
}

// OnChain decides for a part on a chain by the state of its refund, the position as it is, what became of the part's
// last call, and the time of the last final block of the chain.
func (p Part) OnChain(of State, at position.Position, call chain.SendOutcome, now time.Time) Decision {
	requested := !at.RefundAt.IsZero()
	// A request that is done is under way until its event was read.
	underway := call == chain.SendWaiting || call == chain.SendDone && p.Action == Request
	back := of == Cancelled || of == Paying && p.givesUp(at, call, now)
	switch {
	case at.Total().IsZero() && of != Asked:
		return Decision{State: PartDone}
	case back && requested:
		return Decision{Action: Cancel}
	case back && underway:
		return Decision{Action: p.Action} // wait for its end
	case back:
		return Decision{State: PartCancelled}
	case at.Total().IsZero():
		return Decision{} // a penalty took all of it, or the depositor has left
	case !requested && p.State == PartRequested:
		return Decision{State: PartAsked}
	case !requested:
		return Decision{Action: Request}
	case p.State == PartAsked:
		return Decision{State: PartRequested}
	case of == Paying && at.Escrow.IsZero() && !now.Before(at.RefundAt):
		return Decision{Action: Execute}
	}
	return Decision{}
}

// givesUp reports whether a position that is being paid back is left where it is, because its depositor cannot be paid.
// Once the contract was told so it stays so.
func (p Part) givesUp(at position.Position, call chain.SendOutcome, now time.Time) bool {
	return p.Action == Cancel || p.Action == Execute && call == chain.SendRefused && p.Attempt > maxRefusals &&
		!now.Before(at.RefundAt.Add(GiveUpAfter))
}

// OnCard decides for a payment by card.
func (p Part) OnCard() Decision {
	switch p.State {
	case PartOpened:
		return Decision{Action: PostAsked}
	case PartPosted, PartByBank:
		return Decision{Action: PayBack}
	case PartTakenBack:
		return Decision{Action: PostUndo}
	case PartByCard, PartFromBank:
		return Decision{Action: PostPaid}
	default:
		return Decision{}
	}
}

// Calldata returns the call of the contract for an action; nil for an action that is none.
func (p Part) Calldata(a Action) []byte {
	subject := contract.Subject(p.Provider)
	switch a {
	case Request:
		return contract.RequestRefund(subject, p.Depositor)
	case Cancel:
		return contract.CancelRefund(subject, p.Depositor)
	case Execute:
		return contract.ExecuteRefund(subject, p.Depositor)
	default:
		return nil
	}
}

// Blocked is the error for a refund that something open keeps.
func Blocked(what string) error {
	return fault.New(fault.Precondition, fault.RefundBlocked, "collateral is not refunded while %s is open", what)
}

// TooOften is the error for a refund that follows another within Every.
func TooOften(wait time.Duration) error {
	return fault.New(fault.Precondition, fault.RefundBlocked, "a refund is asked for at most once in 24 hours").After(wait)
}

// NotAllowed is the error for what a refund's state does not allow.
func NotAllowed(format string, args ...any) error {
	return fault.New(fault.Precondition, fault.TransitionNotAllowed, format, args...)
}

// NotFound is the reason of an error about a refund that there is not.
const NotFound fault.Reason = "refund_not_found"
