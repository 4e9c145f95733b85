package session

// Receive takes a message. It never waits. A returned reason ends the connection.
//
// Receive chooses the set of rules for a message. Outside strict.go and lenient.go, the
// sets differ in how requests go out (outbox.go), whether credit is granted again
// (hold.go), how requests are named and whether they can be cancelled (stream.go),
// whether the agent can be told to drain (close.go), how warm-ups are named (warmup.go),
// whether there are receipts (receipt.go), and how a task is put (challenge.go).
func (s *Session) Receive(in *Inbound) *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() >= Closing {
		return nil // the message came after the session began to close
	}
	if s.limits.Strict {
		return s.strictLocked(in)
	}
	return s.lenientLocked(in)
}

// Unreadable takes the error of a message that the dialect cannot read. A returned reason
// ends the connection.
func (s *Session) Unreadable(err error) *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() >= Closing {
		return nil
	}
	if s.limits.Strict {
		return protocolError(err.Error())
	}
	return s.unreadableLocked(err)
}

// Discarded notes a message for which the hub had no room: the name of the request that
// the message answers, nil for none, and the message's size in bytes. A returned reason
// ends the connection.
func (s *Session) Discarded(name []byte, size int64) *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() >= Closing || s.limits.Strict {
		return nil // strict messages are never large
	}
	return s.discardedLocked(name, size)
}
