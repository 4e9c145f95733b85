package dispatch

import (
	"time"

	"svc.internal/services/provider-hub/internal/session"
)

// Stream is one order on an agent's session; session.Stream says what its
// methods mean.
type Stream interface {
	EngineModel() string
	Ready() <-chan struct{}
	Take() (piece []byte, end *session.End, err error)
	Release(n int, piece []byte)
	Probe()
	Cancel()
	Close(cancel bool)
}

// Session is where orders are put; see session.Session.
type Session interface {
	Open(r session.Request) (Stream, error)
}

// Timer is the part of a time.Timer with a function that an attempt uses.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Waiting is where an attempt waits.
type Waiting uint8

// The places.
const (
	// ForAll waits for the caller, the stream, and the alarms of the attempt's beginning.
	ForAll Waiting = iota + 1
	// ForCommit waits for the caller, and the alarm that was just set.
	ForCommit
	// ForUsage waits for the stream, and the alarm that was just set.
	ForUsage
)

// Env is what a dispatcher needs from outside.
type Env struct {
	// Wait, when set, is called each time before an attempt waits. A simulator can then
	// take over until exactly one event can come next.
	Wait func(c Caller, what Waiting)
	// Find finds the session that an order names.
	Find func(o *Order) (Session, bool)
	// Longest, when set, bounds the time of the whole answer of an order on its session;
	// 0 is no bound.
	Longest func(s Session) time.Duration
	// Mode, when set, reports whether the provider of a session is reached by a call of its
	// server instead of a WebSocket, and whether it is a vendor.
	Mode func(s Session) (external, vendor bool)
	// After is time.AfterFunc.
	After func(d time.Duration, f func()) Timer
	// Prove, when set, makes the proof of an order, which its provider shows later to be
	// paid. It is called for chat alone, because only chat has work receipts.
	Prove func(o *Order) []byte
}

// LiveEnv is the Env of the agents' sessions and the runtime's timers. prove may be nil.
func LiveEnv(sessions Sessions, prove func(o *Order) []byte) Env {
	return Env{
		Find: func(o *Order) (Session, bool) {
			s, ok := sessions.Find(o.Provider, o.Node, o.Epoch)
			return liveSession{s}, ok
		},
		Longest: func(s Session) time.Duration { return s.(liveSession).MaxTotal() },
		Mode: func(s Session) (external, vendor bool) {
			who := s.(liveSession).Identity()
			return who.External, who.Vendor
		},
		After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
		Prove: prove,
	}
}

type liveSession struct{ *session.Session }

// Open implements Session.
func (s liveSession) Open(r session.Request) (Stream, error) {
	stream, err := s.Session.Open(r)
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// waits tells the Env that the attempt is about to wait.
func (a *attempt) waits(what Waiting) {
	if a.dispatcher.env.Wait != nil {
		a.dispatcher.env.Wait(a.caller, what)
	}
}
