package session

// State is the state of a session.
type State uint8

// The states of a session.
const (
	// Connected awaits the registration.
	Connected State = iota + 1
	// Admitting has its credential looked up, or waits for its turn.
	Admitting
	// Held is Admitting on a hub that drains and cannot tell the agent so. The
	// registration is never answered.
	Held
	// Live is registered, and takes requests while its provider is active.
	Live
	// Draining is registered and takes no new requests. Open requests go on.
	Draining
	// Finishing is Draining, and closes when the last request has ended.
	Finishing
	// Closing tells the agent why the connection ends. Messages of the agent have no
	// effect.
	Closing
	// Ended has a closed socket.
	Ended
)

// registered reports whether the agent is registered.
func (s State) registered() bool { return s >= Live && s <= Finishing }

// trigger is what may move a session to another state.
type trigger uint8

const (
	enrols      trigger = iota // a valid first registration came
	granted                    // the look-up succeeded and the registrar let it join
	agentDrains                // the agent takes no new requests
	hubDrains                  // the hub drains, and can tell the agent so
	hubHolds                   // the hub drains, and cannot tell the agent so
	finishes                   // the provider may serve nobody any more
	emptied                    // the last request has ended
	late                       // the time to register is over
	shuts                      // anything else that closes the connection
	ends                       // the socket is closed
	triggers
)

// table is the whole state machine. A pair of state and trigger that is not listed
// changes nothing.
var table = [Ended + 1][triggers]State{
	Connected: {enrols: Admitting, hubDrains: Closing, finishes: Closing, late: Closing, shuts: Closing, ends: Ended},
	Admitting: {granted: Live, hubDrains: Closing, hubHolds: Held, finishes: Closing, shuts: Closing, ends: Ended},
	// Only strict agents can be told that the hub drains, so only lenient agents are
	// held.
	Held: {finishes: Closing, shuts: Closing, ends: Ended},
	Live: {
		agentDrains: Draining, hubDrains: Draining, hubHolds: Draining, finishes: Finishing, shuts: Closing, ends: Ended,
	},
	Draining:  {finishes: Finishing, shuts: Closing, ends: Ended},
	Finishing: {emptied: Closing, shuts: Closing, ends: Ended},
	Closing:   {ends: Ended},
}
