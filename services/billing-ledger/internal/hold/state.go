package hold

// State is where a hold stands.
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
	// Usage has come, from the hub or from the gateway's count.
	Usage Trigger = "usage"
	// NothingServed is the gateway's word that nothing was relayed.
	NothingServed Trigger = "nothing_served"
	// Renewed is a request that still runs.
	Renewed Trigger = "renewed"
	// OverUnserved is a lease that ended without evidence of anything served.
	OverUnserved Trigger = "over_unserved"
	// OverServed is one that ended with evidence: it is reviewed, and stays
	// open for the usage that the review publishes.
	OverServed Trigger = "over_served"
	// ReviewFailed is a review whose usage was published as often as it may
	// be and did not settle the hold.
	ReviewFailed Trigger = "review_failed"
)

// Triggers returns every trigger.
func Triggers() []Trigger {
	return []Trigger{Usage, NothingServed, Renewed, OverUnserved, OverServed, ReviewFailed}
}

// transitions is the whole machine; the triggers of the table hold assert the
// same. A closed hold takes nothing.
var transitions = map[State]map[Trigger]State{
	Open: {
		Usage: Settled, NothingServed: Released, Renewed: Open,
		OverUnserved: Expired, OverServed: Open, ReviewFailed: Expired,
	},
}

// After is the state that the trigger leads to; false when the state does not
// take it.
func (s State) After(t Trigger) (State, bool) {
	to, ok := transitions[s][t]
	return to, ok
}
