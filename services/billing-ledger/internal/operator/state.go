package operator

// State is where an operator is in its life.
type State string

// The states.
const (
	// Invited is an operator who has not shown a code yet.
	Invited State = "invited"
	Active  State = "active"
	// Ended is for good.
	Ended State = "ended"
)

// Trigger is what moves an operator from one state to another.
type Trigger string

// The triggers.
const (
	// Confirm is the first code.
	Confirm Trigger = "confirm"
	// Reset takes password, codes and sessions away, and makes another invitation.
	Reset Trigger = "reset"
	End   Trigger = "end"
)

// move is a trigger in a state.
type move struct {
	from State
	by   Trigger
}

// moves are all transitions. End may come again.
var moves = map[move]State{
	{Invited, Confirm}: Active,
	{Invited, Reset}:   Invited,
	{Invited, End}:     Ended,
	{Active, Reset}:    Invited,
	{Active, End}:      Ended,
	{Ended, End}:       Ended,
}

// Next returns the state that follows. It fails with transition_not_allowed.
func (s State) Next(by Trigger) (State, error) {
	next, ok := moves[move{s, by}]
	if !ok {
		return "", notAllowed("an operator who is %s cannot take the step %s", s, by)
	}
	return next, nil
}
