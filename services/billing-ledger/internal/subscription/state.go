package subscription

import "fmt"

// State is where a subscription stands.
type State string

// The states.
const (
	Incomplete State = "incomplete"
	Active     State = "active"
	PastDue    State = "past_due"
	Ended      State = "ended"
)

// States returns all states.
func States() []State { return []State{Incomplete, Active, PastDue, Ended} }

// Trigger is what moves a subscription.
type Trigger string

// The triggers.
const (
	// WasPaid is a paid invoice of a period behind all others.
	WasPaid Trigger = "was_paid"
	// PeriodOver is the end of the last paid period of a subscription that goes on.
	PeriodOver Trigger = "period_over"
	// Finished is its end: of the page, of the period after a cancel, or of Grace.
	Finished Trigger = "finished"
	// Refunded is the refund of its last invoice.
	Refunded Trigger = "refunded"
)

// Triggers returns all triggers.
func Triggers() []Trigger { return []Trigger{WasPaid, PeriodOver, Finished, Refunded} }

// transitions is the whole of what may happen. The trigger subscription_moves of the database has
// the same.
var transitions = map[State]map[Trigger]State{
	Incomplete: {WasPaid: Active, Finished: Ended},
	Active:     {WasPaid: Active, PeriodOver: PastDue, Finished: Ended, Refunded: Ended},
	PastDue:    {WasPaid: Active, PeriodOver: PastDue, Finished: Ended, Refunded: Ended},
	Ended:      {PeriodOver: Ended, Finished: Ended, Refunded: Ended},
}

// After returns the state that follows.
func (s State) After(t Trigger) (State, error) {
	to, ok := transitions[s][t]
	if !ok {
		return s, fmt.Errorf("a subscription that is %q cannot follow %q", s, t)
	}
	return to, nil
}
