package penalty

import "svc.internal/pkg/fault"

// State is where a penalty stands.
type State string

// The states.
const (
	// Proposed is open to appeal until its time is over.
	Proposed State = "proposed"
	// Appealed waits for an operator. The clock stands still.
	Appealed State = "appealed"
	// Upheld is a refused appeal. It is executed by itself.
	Upheld State = "upheld"
	// Reversed is void. It is final.
	Reversed State = "reversed"
	// Executed means that the share is due. It is final. Nothing has been moved by it:
	// amounts and their movement belong to where collateral is kept.
	Executed State = "executed"
)

// States returns every state.
func States() []State { return []State{Proposed, Appealed, Upheld, Reversed, Executed} }

// Final reports whether no trigger leads out of the state.
func (s State) Final() bool { return s == Reversed || s == Executed }

// Trigger is what moves a penalty from one state to another.
type Trigger string

// The triggers.
const (
	// Appeal is the provider's word against the penalty.
	Appeal Trigger = "appeal"
	// Expire follows by itself once Window is over without an appeal.
	Expire Trigger = "expire"
	// Uphold is an operator's refusal of an appeal.
	Uphold Trigger = "uphold"
	// Reverse is an operator's word that the penalty is void, appealed or not.
	Reverse Trigger = "reverse"
	// Execute follows by itself once an appeal was refused.
	Execute Trigger = "execute"
)

// Triggers returns every trigger.
func Triggers() []Trigger { return []Trigger{Appeal, Expire, Uphold, Reverse, Execute} }

// transitions is the whole machine. A pair that is not in it is not allowed. A state that
// leads to itself accepts the trigger where the trigger came before, because a trigger
// may come twice, and nothing changes. The conditions are in life.go. The database
// refuses every pair of states that is not here (table penalty_transition).
var transitions = map[State]map[Trigger]State{
	Proposed: {Appeal: Appealed, Expire: Executed, Reverse: Reversed},
	Appealed: {Appeal: Appealed, Uphold: Upheld, Reverse: Reversed},
	Upheld:   {Appeal: Upheld, Uphold: Upheld, Reverse: Reversed, Execute: Executed},
	Reversed: {Appeal: Reversed, Reverse: Reversed},
	Executed: {Appeal: Executed, Expire: Executed, Uphold: Executed, Execute: Executed},
}

// After is the state that the trigger leads to, which may be the same state. It fails
// with transition_not_allowed.
func (s State) After(t Trigger) (State, error) {
	to, ok := transitions[s][t]
	if !ok {
		return "", notAllowed("a penalty that is %s cannot take %s", s, t)
	}
	return to, nil
}

func notAllowed(format string, args ...any) error {
	return fault.New(fault.Precondition, fault.TransitionNotAllowed, format, args...)
}
