package connection

// state is where a session stands.
type state uint8

const (
	registering state = iota + 1 // REGISTER is sent or about to be
	live                         // acknowledged
	moving                       // as live; another session is to take this one's place
	draining                     // takes nothing new; lives on until it is relieved
	leaving                      // as draining; ends with the last request and warm-up
	stopping                     // as draining; ends with the last request
	over                         // frames have no effect
)

// trigger is what may change a session's state.
type trigger uint8

const (
	acknowledged   trigger = iota // the hub has answered the registration
	hubDrains                     // the hub is about to stop
	machineChanged                // the machine is not what the registration said
	givesWay                      // a successor is about to register
	relieved                      // a successor is registered
	stops                         // the agent is about to stop
	emptied                       // nothing holds a session that is to end
	fails                         // the socket has failed, or a rule was broken
	triggers
)

// table is the whole machine. A pair that it does not list changes nothing. A hub
// that drains before it has acknowledged breaks off the connection (fails).
var table = [over + 1][triggers]state{
	registering: {acknowledged: live, relieved: over, stops: over, fails: over},
	live: {
		hubDrains: draining, machineChanged: moving, givesWay: draining,
		relieved: leaving, stops: stopping, fails: over,
	},
	moving:   {hubDrains: draining, givesWay: draining, relieved: leaving, stops: stopping, fails: over},
	draining: {relieved: leaving, stops: stopping, fails: over},
	leaving:  {stops: stopping, emptied: over, fails: over},
	stopping: {emptied: over, fails: over},
}

// registered reports whether the hub has acknowledged and the session is not over.
func (s state) registered() bool { return s >= live && s < over }

// takes reports whether new requests are taken.
func (s state) takes() bool { return s == live || s == moving }

// ends reports whether the session ends by itself once nothing holds it.
func (s state) ends() bool { return s == leaving || s == stopping }
