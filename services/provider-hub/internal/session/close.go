package session

import "time"

// moveLocked pulls a trigger, and reports whether the session has another state now.
// Nothing else changes the state.
func (s *Session) moveLocked(t trigger) bool {
	to := table[s.State()][t]
	if to == 0 {
		return false
	}
	s.state.Store(uint32(to))
	return true
}

// closeLocked pulls a trigger. If the session closes by it, open requests fail, the
// messages that wait for the writer are dropped, and the agent is told why.
func (s *Session) closeLocked(t trigger, why *CloseReason) {
	if !s.moveLocked(t) || s.State() != Closing {
		return
	}
	s.closing = why
	s.control, s.requests, s.bodies = nil, nil, nil
	s.failStreamsLocked()
	s.stopTimersLocked()
	s.wake()
}

// Shut closes the session: its requests fail at once, messages that still arrive have no
// effect, and the agent is told why before the socket is closed. Only the first call
// counts.
func (s *Session) Shut(why *CloseReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(shuts, why)
}

// Drain has the session take no new requests. A strict agent is told so, and when to dial
// again. The connection of a strict agent that is not registered is closed, because the
// agent is better off with another hub. A lenient agent cannot be told: its connection
// stays, and a registration that waits is not answered.
func (s *Session) Drain(reconnectAfter time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.limits.Strict:
		s.moveLocked(hubHolds)
	case s.State().registered():
		s.moveLocked(hubDrains)
		s.pushLocked(Outbound{Kind: OutDrain, After: reconnectAfter})
	default:
		s.closeLocked(hubDrains, ShuttingDown(reconnectAfter))
	}
}

// Finish has the session take no new requests, lets the open requests end, and then
// closes the session as Shut does. A session that is not registered is closed at once.
// Only the first call counts.
func (s *Session) Finish(why *CloseReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.State().registered() {
		s.closeLocked(finishes, why)
		return
	}
	if s.moveLocked(finishes) {
		s.leaving = why
		s.emptiedLocked()
	}
}

// emptiedLocked closes a session that finishes, once no request is under way.
func (s *Session) emptiedLocked() {
	if len(s.streams) == 0 {
		s.closeLocked(emptied, s.leaving)
	}
}

// SocketClosed notes that the socket is closed, so that nobody opens another request. It
// reports whether requests are under way. A call of End follows.
func (s *Session) SocketClosed() (busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.socketClosed = true
	return len(s.streams) > 0
}

// End ends the session of a closed socket: its requests fail. It is called once.
func (s *Session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moveLocked(ends)
	s.failStreamsLocked()
	s.stopTimersLocked()
	close(s.done)
}

func (s *Session) stopTimersLocked() {
	for _, t := range []*time.Timer{s.heartbeat, s.deadline, s.freeing} {
		if t != nil {
			t.Stop()
		}
	}
}
