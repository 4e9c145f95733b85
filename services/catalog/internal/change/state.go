package change

import "svc.internal/pkg/fault"

// State is what became of a change.
type State string

// The states. A change ends once, and then stays as it ended.
const (
	Scheduled State = "scheduled"
	Applied   State = "applied"
	Cancelled State = "cancelled"
	Refused   State = "refused"
)

// Trigger ends a change that is scheduled.
type Trigger string

// The triggers.
const (
	// Apply puts the change in force.
	Apply Trigger = "apply"
	// Cancel is an operator's withdrawal.
	Cancel Trigger = "cancel"
	// Refuse ends a change that cannot stand, or whose model was changed before.
	Refuse Trigger = "refuse"
)

// moves has the state that follows. A trigger that is not listed for a state is not allowed.
var moves = map[State]map[Trigger]State{
	Scheduled: {Apply: Applied, Cancel: Cancelled, Refuse: Refused},
	Applied:   {},
	Cancelled: {},
	Refused:   {},
}

// after returns the state that follows on a trigger. It fails with transition_not_allowed.
func (s State) after(t Trigger) (State, error) {
	next, ok := moves[s][t]
	if !ok {
		return s, fault.New(fault.Precondition, fault.TransitionNotAllowed, "the change is %s already", s)
	}
	return next, nil
}
