package card

import "fmt"

// State is where a checkout stands.
type State string

// The states of a checkout.
const (
	Created State = "created"
	Paid    State = "paid"
	Expired State = "expired"
)

// Trigger is what moves a checkout.
type Trigger string

// The triggers, which the processor's session decides.
const (
	WasPaid    Trigger = "was_paid"
	HasExpired Trigger = "has_expired"
)

// transitions is the whole of what may happen. The trigger checkout_moves of the database
// has the same.
var transitions = map[State]map[Trigger]State{
	Created: {WasPaid: Paid, HasExpired: Expired},
	// Late: see the package.
	Expired: {WasPaid: Paid, HasExpired: Expired},
	Paid:    {WasPaid: Paid, HasExpired: Paid},
}

// After returns the state that follows.
func (s State) After(t Trigger) (State, error) {
	to, ok := transitions[s][t]
	if !ok {
		return s, fmt.Errorf("a checkout that is %q cannot follow %q", s, t)
	}
	return to, nil
}

// States returns all states.
func States() []State { return []State{Created, Paid, Expired} }

// Triggers returns all triggers.
func Triggers() []Trigger { return []Trigger{WasPaid, HasExpired} }

// RefundState is where a refund that was asked for stands.
type RefundState string

// The states of a refund. Reversed is final, and so is ByCard unless the card did not take it
// after all: then the refund is asked for again.
const (
	Asked RefundState = "asked"
	// ByCard is a refund that the card processor made.
	ByCard RefundState = "by_card"
	// FromBank is a refund that no card takes. It is reversed if the card's owner takes the
	// money back before the books have paid it.
	FromBank RefundState = "from_bank"
	// Reversed is a refund of money that the card's owner has back otherwise.
	Reversed RefundState = "reversed"
)

// RefundStates returns all states.
func RefundStates() []RefundState { return []RefundState{Asked, ByCard, FromBank, Reversed} }
