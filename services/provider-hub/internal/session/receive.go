package session

// Receive takes a message. It never waits. What it returns ends the connection.
//
// Which of two sets of rules an agent speaks by is asked here, and where a rule on
// something that both have differs: how requests go out (outbox.go), whether credit is
// granted again (hold.go), how requests are named and whether they can be cancelled
// (stream.go), whether the agent can be told to drain (close.go), how warm-ups are
// named, and whether there are receipts.
func (s *Session) Receive(in *Inbound) *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() >= Closing {
		return nil // the message is of an older epoch, or behind a refusal
	}
	if s.limits.Strict {
		return s.strictLocked(in)
	}
	return s.lenientLocked(in)
}

// Unreadable is what a message that the dialect refused leads to. What it returns ends
// the connection.
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

// Discarded takes a message that there was no room for: the request that it answers,
// nil for none, and its size in bytes. What it returns ends the connection.
func (s *Session) Discarded(name []byte, size int64) *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() >= Closing || s.limits.Strict {
		return nil // strict messages are never large
	}
	return s.discardedLocked(name, size)
}
