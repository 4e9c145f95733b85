package hubsim

import (
	"context"
	"iter"
	"time"

	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/session"
)

// Peer is the far end of an attempt: the gateway and the agent. The attempt uses bytes
// again when a call returns.
type Peer interface {
	// Event, Finished and Failed are for the gateway. An error means that the gateway
	// cannot be reached.
	Event(e Event) error
	Finished(prompt, completion int64) error
	Failed(f Failure) error
	// Ended says that the call has ended, with an error if nothing else was said.
	Ended(err error)
	// Cancel is for the agent.
	Cancel()
	// Closed says that the agent's answer is not taken any more.
	Closed(cancel bool)
}

// Attempt is one order under way at a hub.
type Attempt struct {
	Order *Order

	hub    *Hub
	peer   Peer
	ctx    context.Context //nolint:containedctx // it is the call's
	cancel context.CancelFunc
	gone   chan struct{}
	commit chan struct{}
	ready  chan struct{}
	closed bool // gone or commit may be closed only once
	told   bool

	in     []byte
	end    *End
	lost   error
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	what   dispatch.Waiting
	over   bool
}

// Serve begins an order and returns when the attempt waits.
func (h *Hub) Serve(o *Order, peer Peer) *Attempt {
	a := &Attempt{
		Order: o, hub: h, peer: peer,
		gone: make(chan struct{}), commit: make(chan struct{}), ready: make(chan struct{}, 1),
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	h.opening = a
	next, _ := iter.Pull(func(yield func(struct{}) bool) {
		a.yield = yield
		err := h.dispatcher.Serve(a.ctx, o, caller{a})
		a.over = true
		a.cancel()
		peer.Ended(err)
	})
	a.resume = next
	a.resume()
	return a
}

// Over reports whether the attempt has ended.
func (a *Attempt) Over() bool { return a.over }

// Commit is the gateway's decision to relay the answer.
func (a *Attempt) Commit() {
	if !a.told {
		a.told = true
		close(a.commit)
		a.wake(dispatch.ForAll, dispatch.ForCommit)
	}
}

// HangUp ends the gateway's side in good order.
func (a *Attempt) HangUp() {
	if !a.closed {
		a.closed = true
		close(a.gone)
		a.wake(dispatch.ForAll, dispatch.ForCommit)
	}
}

// CutOff ends the call without order.
func (a *Attempt) CutOff() {
	if a.ctx.Err() == nil {
		a.cancel()
		a.wake(dispatch.ForAll, dispatch.ForCommit)
	}
}

// Data delivers a piece of the agent's answer.
func (a *Attempt) Data(piece []byte) {
	if a.end == nil && a.lost == nil {
		a.in = append(a.in, piece...)
		a.signal()
	}
}

// End delivers the agent's last word.
func (a *Attempt) End(end End) {
	if a.end == nil && a.lost == nil {
		a.end = &end
		a.signal()
	}
}

// Lost ends the agent's connection.
func (a *Attempt) Lost() {
	if a.end == nil && a.lost == nil {
		a.lost = session.ErrLost
		a.signal()
	}
}

// Unwind runs an attempt of a dead process to its end.
func (a *Attempt) Unwind() {
	a.cancel()
	for !a.over {
		a.resume()
	}
}

func (a *Attempt) signal() {
	select {
	case a.ready <- struct{}{}:
	default:
	}
	a.wake(dispatch.ForAll, dispatch.ForUsage)
}

// wake resumes the attempt if it waits for what came.
func (a *Attempt) wake(where ...dispatch.Waiting) {
	for _, w := range where {
		if a.what == w && !a.over {
			a.what = 0
			a.resume()
			return
		}
	}
}

// wait is where the dispatcher's attempts yield to the simulator. It returns at once for
// something that came while the attempt waited for something else.
func wait(c dispatch.Caller, what dispatch.Waiting) {
	a := c.(caller).Attempt
	for _, t := range a.hub.timers {
		t.attempt, t.what = a, what
	}
	a.hub.timers = nil
	if what == dispatch.ForUsage && len(a.ready) > 0 {
		return
	}
	if what == dispatch.ForCommit && (a.closed || a.ctx.Err() != nil) {
		return
	}
	a.what = what
	a.yield(struct{}{})
}

// caller is the gateway's end.
type caller struct{ *Attempt }

func (c caller) Event(e dispatch.Event) error        { return c.peer.Event(e) }
func (c caller) Finished(prompt, output int64) error { return c.peer.Finished(prompt, output) }
func (c caller) Failed(f dispatch.Failure) error     { return c.peer.Failed(f) }
func (c caller) Committed() <-chan struct{}          { return c.commit }
func (c caller) Gone() <-chan struct{}               { return c.gone }

// place is a session that an order is about to be put on.
type place struct {
	hub   *Hub
	order *Order
}

// Open implements dispatch.Session.
func (p place) Open(session.Request) (dispatch.Stream, error) {
	a := p.hub.opening
	if err := p.hub.world.OpenStream(a); err != nil {
		return nil, err
	}
	return stream{a}, nil
}

// stream is the agent's end.
type stream struct{ a *Attempt }

func (s stream) Ready() <-chan struct{} { return s.a.ready }

func (s stream) Take() ([]byte, *session.End, error) {
	piece := s.a.in
	s.a.in = nil
	return piece, s.a.end, s.a.lost
}

func (stream) Release(int, []byte) {}
func (stream) EngineModel() string { return "" }
func (stream) Probe()              {}
func (s stream) Cancel()           { s.a.peer.Cancel() }
func (s stream) Close(cancel bool) { s.a.peer.Closed(cancel) }

// timer is an alarm of an attempt.
type timer struct {
	Timer
	attempt *Attempt
	what    dispatch.Waiting
}

// after is the dispatcher's time.AfterFunc: an alarm wakes its attempt when the attempt
// waits for it.
func (h *Hub) after(d time.Duration, f func()) dispatch.Timer {
	t := &timer{}
	t.Timer = h.world.After(d, func() {
		f()
		if t.attempt != nil {
			t.attempt.wake(t.what)
		}
	})
	h.timers = append(h.timers, t)
	return t
}
