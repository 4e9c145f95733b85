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

// Timer is what an attempt does with a time.Timer that calls a function.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

// Waiting is where an attempt waits, and so for what.
type Waiting uint8

// The places.
const (
	// ForAll is for its caller, the stream, and the alarms of its beginning.
	ForAll Waiting = iota + 1
	// ForCommit is for its caller, and the alarm that it has just set.
	ForCommit
	// ForUsage is for the stream, and the alarm that it has just set.
	ForUsage
)

// Env is what a dispatcher has outside of itself.
type Env struct {
	// Wait, when set, is called each time before an attempt waits, so that a
	// simulator can take over until there is exactly one thing to go on with.
	Wait func(c Caller, what Waiting)
	// Find finds the session that an order names.
	Find func(o *Order) (Session, bool)
	// Longest, when set, bounds the whole answer of an order on its session; 0
	// is no bound.
	Longest func(s Session) time.Duration
	// After is time.AfterFunc.
	After func(d time.Duration, f func()) Timer
	// Prove, when set, makes what the provider of an order shows later to be paid
	// for it. Only chat has receipts, so that it is asked for no other.
	Prove func(o *Order) []byte
}

// LiveEnv has the sessions of agents and the timers of the runtime. prove may be
// nil.
func LiveEnv(sessions Sessions, prove func(o *Order) []byte) Env {
	return Env{
		Find: func(o *Order) (Session, bool) {
			s, ok := sessions.Find(o.Provider, o.Node, o.Epoch)
			return liveSession{s}, ok
		},
		Longest: func(s Session) time.Duration { return s.(liveSession).MaxTotal() },
		After:   func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
		Prove:   prove,
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
