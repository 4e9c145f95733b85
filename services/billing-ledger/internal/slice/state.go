package slice

// phase is where an account's slice is in its life, as its owner sees it.
type phase string

// The phases.
const (
	// wanted: the account is busy, and the next turn asks for a slice.
	wanted phase = "wanted"
	// opening: the turn that asks for a slice is under way. The slice may be open in the database.
	opening phase = "opening"
	// open: requests are admitted.
	open phase = "open"
	// closing: nothing is admitted. Turns end the slice and write what is left.
	closing phase = "closing"
	// gone: the owner has no slice of the account, and everything is written. It is final.
	gone phase = "gone"
)

// event is what moves a slice from one phase to another.
type event string

// The events.
const (
	// asked: a turn that asks for a slice begins.
	asked event = "asked"
	// granted: a turn left the account with a slice of this owner.
	granted event = "granted"
	// ended: a turn left the account without one, and nothing is unwritten.
	ended event = "ended"
	// endedUnwritten: a turn left the account without one. Requests that were admitted while the turn
	// was under way are unwritten.
	endedUnwritten event = "ended_unwritten"
	// failed: nobody knows whether a turn was committed.
	failed event = "failed"
	// recalled: somebody asks for the slice, nobody uses it, or the owner stops.
	recalled event = "recalled"
)

// transitions is the whole state machine. An event that a phase does not name cannot come then.
var transitions = map[phase]map[event]phase{
	wanted: {asked: opening, recalled: gone},
	// After a failed turn the slice may be open unseen, so it is closed.
	opening: {granted: open, ended: gone, failed: closing, recalled: closing},
	open:    {granted: open, ended: gone, endedUnwritten: closing, failed: open, recalled: closing},
	// A turn that began before the recall may still grant.
	closing: {granted: closing, ended: gone, endedUnwritten: closing, failed: closing, recalled: closing},
	gone:    {recalled: gone},
}

// after returns the phase to which the event leads, and false where the event cannot come.
func (p phase) after(e event) (phase, bool) {
	to, ok := transitions[p][e]
	return to, ok
}
