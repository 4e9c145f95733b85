package session

// chatLocked spends a token for what an agent may send without having been asked.
func (s *Session) chatLocked() *CloseReason {
	if !s.chatter.Take(s.env.Clock.Now()) {
		return protocolError("too many heartbeats, pings or empty frames")
	}
	return nil
}

// Ping keeps the answer to a ping for the writer. Of several pings that wait, only the
// last is answered, as the WebSocket standard allows. A returned reason ends the
// connection.
func (s *Session) Ping(payload []byte) *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pong, s.pongDue = append(s.pong[:0], payload...), true
	s.wake()
	return s.chatLocked()
}

// Pong tells the writer that the agent lives. A returned reason ends the connection.
func (s *Session) Pong() *CloseReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pongSeen = true
	s.wake()
	return s.chatLocked()
}
