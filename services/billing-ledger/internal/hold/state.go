package hold

// State is the state of a hold.
type State string

// The states. Every one but Open is final.
const (
	Open     State = "open"
	Settled  State = "settled"
	Released State = "released"
	Expired  State = "expired"
)

// States returns every state.
func States() []State { return []State{Open, Settled, Released, Expired} }

// Trigger is what moves a hold from one state to another.
type Trigger string

// The triggers.
const (
	// Usage arrived, from the hub or from the gateway's count.
	Usage Trigger = "usage"
	// NothingServed is a gateway's report that nothing was relayed.
	NothingServed Trigger = "nothing_served"
	// Renewed is a renewal: the request still runs.
	Renewed Trigger = "renewed"
	// OverUnserved is the end of a lease without evidence that anything was served.
	OverUnserved Trigger = "over_unserved"
	// OverServed is the end of a lease with such evidence. The hold is reviewed and stays
	// open for the usage that the review publishes.
	OverServed Trigger = "over_served"
	// ReviewFailed is the last publication of a review that did not settle the hold.
	ReviewFailed Trigger = "review_failed"
)

// Triggers returns every trigger.
func Triggers() []Trigger {
	return []Trigger{Usage, NothingServed, Renewed, OverUnserved, OverServed, ReviewFailed}
}

// transitions is the whole state machine; the triggers on the table hold enforce the same
// one. A closed hold takes no trigger.
var transitions = map[State]map[Trigger]State{
	Open: {
		Usage: Settled, NothingServed: Released, Renewed: Open,
		OverUnserved: Expired, OverServed: Open, ReviewFailed: Expired,
	},
}

// After returns the state that the trigger leads to, and false when the state does not
// take the trigger.
func (s State) After(t Trigger) (State, bool) {
	to, ok := transitions[s][t]
	return to, ok
}
