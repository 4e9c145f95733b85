package slash

// State is where a part stands.
type State string

// The states.
const (
	// Opened is to be moved into escrow.
	Opened State = "opened"
	// Escrowed is in escrow.
	Escrowed State = "escrowed"
	// Appealed is in escrow, and its clock on the chain has stopped.
	Appealed State = "appealed"
	// Executed is taken. It is final.
	Executed State = "executed"
	// Reversed is free again. It is final.
	Reversed State = "reversed"
	// Lapsed is free again, because nobody ended it in time. It is final.
	Lapsed State = "lapsed"
	// Missed was never in escrow: its position had less by then, or the penalty was reversed before. It is final.
	Missed State = "missed"
)

// States returns every state.
func States() []State {
	return []State{Opened, Escrowed, Appealed, Executed, Reversed, Lapsed, Missed}
}

// transitions is the whole machine. The database refuses every other pair (table penalty_part_transition).
var transitions = map[State][]State{
	Opened:   {Escrowed, Missed},
	Escrowed: {Appealed, Executed, Reversed, Lapsed},
	Appealed: {Executed, Reversed, Lapsed},
	// A proposal that was thought to have failed may be final after all, in a restored database for example.
	Missed: {Escrowed},
}

// Next returns the states that a state leads to.
func (s State) Next() []State { return transitions[s] }

// Final reports whether the state is an end of a part.
func (s State) Final() bool { return s == Executed || s == Reversed || s == Lapsed || s == Missed }

// Action is what is done for a part.
type Action string

// The actions. Those on a chain are calls of the contract, and those by card postings.
const (
	None     Action = ""
	Propose  Action = "propose"
	Appeal   Action = "appeal"
	Execute  Action = "execute"
	Uphold   Action = "uphold"
	Reverse  Action = "reverse"
	LapseNow Action = "lapse"
	// Drop gives up a part that nobody has begun.
	Drop Action = "drop"

	PostSlashed   Action = "post_slashed"
	PostForfeited Action = "post_forfeited"
	PostWon       Action = "post_won"
)

// Key is the name of the key that signs an action on a chain. What anybody may call is the gas key's.
func (a Action) Key() string {
	switch a {
	case Propose, Execute:
		return "slasher"
	case Uphold, Reverse:
		return "arbiter"
	case LapseNow:
		return "gas"
	default:
		return "operator"
	}
}
