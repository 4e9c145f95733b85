package session

import "svc.internal/pkg/agentwire"

const (
	// batchBytes is about how much one write to a socket carries.
	batchBytes = 64 << 10
	// strictOverhead and lenientOverhead are about how many bytes a message has beside
	// its payload.
	strictOverhead  = 64
	lenientOverhead = 256
	// keptMessages is the largest queue, in messages, that an idle session keeps.
	keptMessages = 8
)

// Next takes the due messages into the outbox: control messages first, then new requests,
// then one piece of each body in turn, until a batch is full or credit is used up. It is
// for one goroutine, which has written a batch when it comes for the next. The time of a
// challenge begins here, with its first byte, before the batch is written. With its last
// byte Outbox.More is set, so that the time is known when it was written.
func (s *Session) Next(o *Outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Messages = reused(o.Messages)
	s.flushedLocked()
	s.livenessLocked(o)
	o.More = false
	if s.closing != nil {
		o.Closing = s.closing
		s.farewellLocked(o)
		return
	}
	room := s.controlLocked(o, batchBytes)
	room = s.requestsLocked(o, room)
	room = s.bodiesLocked(o, room)
	o.More = room <= 0 || len(s.unflushed) > 0
	s.env.Counts.FramesOut.Add(int64(len(o.Messages)))
}

// farewellLocked sends the last message, unless the connection closes without a message.
// The function is not inlined, because an inlined message would lie on the stack of every
// writer.
//
//go:noinline
func (s *Session) farewellLocked(o *Outbox) {
	if !s.closing.Bare {
		s.sendLocked(o, Outbound{Kind: OutFarewell, Name: s.reply, Why: s.closing})
	}
}

// NextPong takes the pong that is due while the connection closes.
func (s *Session) NextPong(o *Outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.livenessLocked(o)
}

// livenessLocked takes the pings and pongs that are due.
func (s *Session) livenessLocked(o *Outbox) {
	o.Ping, s.probe = s.probe, false
	o.Answered, s.pongSeen = s.pongSeen, false
	o.Pong = append(o.Pong[:0], s.pong...)
	o.PongDue, s.pongDue = s.pongDue, false
}

// pushLocked queues a message that is neither a request nor a body. An agent that asks
// for answers and does not read them loses its connection.
func (s *Session) pushLocked(m Outbound) {
	switch {
	case s.State() >= Closing:
	case len(s.control) >= agentwire.MaxWaiting:
		s.closeLocked(shuts, protocolError("answers are not read"))
	default:
		s.control = append(s.control, m)
		s.wake()
	}
}

// sendLocked gives a message its number on the connection.
func (s *Session) sendLocked(o *Outbox, m Outbound) {
	if s.limits.Strict {
		m.Seq = s.seqOut.Next()
	}
	o.Messages = append(o.Messages, m)
}

// sendOnLocked gives a message its number on a stream, which must be open.
func (s *Session) sendOnLocked(o *Outbox, st *Stream, m Outbound) {
	m.Stream, m.Seq = st.id, st.seqOut.Next()
	o.Messages = append(o.Messages, m)
}

// overhead is about how many bytes a message has beside its payload.
func (s *Session) overhead() int {
	if s.limits.Strict {
		return strictOverhead
	}
	return lenientOverhead
}

// controlLocked sends all messages that are neither requests nor bodies.
func (s *Session) controlLocked(o *Outbox, room int) int {
	for i := range s.control {
		m := &s.control[i] // each copy would lie on the stack of every idle writer
		if m.Stream != 0 {
			st := s.streams[m.Stream]
			if st == nil {
				continue // the stream has ended meanwhile
			}
			m.Seq = st.seqOut.Next()
		} else if s.limits.Strict {
			m.Seq = s.seqOut.Next()
		}
		o.Messages = append(o.Messages, *m)
		room -= s.overhead()
	}
	s.control = reused(s.control)
	return room
}

// requestsLocked sends new requests.
func (s *Session) requestsLocked(o *Outbox, room int) int {
	n := 0
	for ; n < len(s.requests) && room > 0; n++ {
		st := s.requests[n]
		if s.streams[st.id] != st {
			continue // the request was given up before the agent was sent it
		}
		st.opened = true
		st.timing.begins(s.env.Clock.Now())
		switch {
		case st.task() != nil:
			room -= s.taskLocked(o, st)
		case s.limits.Strict:
			room -= s.beginLocked(o, st)
		default:
			room -= s.wholeLocked(o, st)
		}
	}
	s.requests = shift(s.requests, n)
	return room
}

// beginLocked sends the head of a request, and the body too when the body is small. It
// returns about how many bytes it sends.
func (s *Session) beginLocked(o *Outbox, st *Stream) int {
	s.earned.open()
	s.sendOnLocked(o, st, Outbound{Kind: OutOpen, Length: uint32(len(st.body)), Open: &st.request})
	n := strictOverhead + len(st.request.Model) + len(st.request.RequestID)
	if len(st.body) <= agentwire.MaxData {
		n += s.pieceLocked(o, st)
	}
	s.scheduleLocked(st)
	return n
}

// wholeLocked sends a request with its body. It returns about how many bytes it sends.
func (s *Session) wholeLocked(o *Outbox, st *Stream) int {
	n := lenientOverhead + len(st.body)
	st.sentAt = s.env.Clock.Now()
	s.sendLocked(o, Outbound{
		Kind: OutOpen, Name: st.name, Model: st.request.Model, Provider: s.identity.ProviderID,
		Length: uint32(len(st.body)), Data: st.body, Open: &st.request,
	})
	st.stopSendingLocked()
	s.flushingLocked(st)
	return n
}

// taskLocked sends a task, which has no body. It returns about how many bytes it sends.
func (s *Session) taskLocked(o *Outbox, st *Stream) int {
	st.sentAt = s.env.Clock.Now()
	if s.limits.Strict {
		s.earned.add(1) // the reply
	}
	s.sendLocked(o, Outbound{Kind: OutChallenge, Name: st.name, Model: st.request.Model, Open: &st.request})
	st.stopSendingLocked()
	s.flushingLocked(st)
	return s.overhead()
}

// flushingLocked notes that the last byte of a challenge is in the batch that the writer
// takes.
func (s *Session) flushingLocked(st *Stream) {
	if st.timing != nil {
		st.timing.sent = true
		s.unflushed = append(s.unflushed, st)
	}
}

// flushedLocked notes that the writer has written the last batch: it comes for the next.
func (s *Session) flushedLocked() {
	if len(s.unflushed) == 0 {
		return
	}
	now := s.env.Clock.Now()
	for _, st := range s.unflushed {
		st.timing.written = now
	}
	s.unflushed = nil
}

// bodiesLocked sends one piece of each body in turn.
func (s *Session) bodiesLocked(o *Outbox, room int) int {
	for len(s.bodies) > 0 && room > 0 && s.credit > 0 {
		st := s.bodies[0]
		s.bodies = shift(s.bodies, 1)
		st.queued = false
		room -= s.pieceLocked(o, st)
		s.scheduleLocked(st)
	}
	return room
}

// scheduleLocked puts a stream into the ring of bodies if the stream has a piece to send
// and credit.
func (s *Session) scheduleLocked(st *Stream) {
	if st.queued || st.finished || !st.opened || st.credit <= 0 || s.streams[st.id] != st {
		return
	}
	st.queued = true
	s.bodies = append(s.bodies, st)
}

// pieceLocked sends the next piece of a body as far as credit goes, and returns about how
// many bytes it sends.
func (s *Session) pieceLocked(o *Outbox, st *Stream) int {
	if st.finished || s.streams[st.id] != st {
		return 0
	}
	n := agentwire.Spend(len(st.body), &st.credit, &s.credit)
	if n == 0 && len(st.body) > 0 {
		return 0
	}
	piece := st.body[:n:n]
	st.body = st.body[n:]
	s.earned.sent(n)
	fin := len(st.body) == 0
	s.sendOnLocked(o, st, Outbound{Kind: OutData, Data: piece, Fin: fin})
	if fin {
		st.stopSendingLocked()
		s.flushingLocked(st)
	}
	return n + strictOverhead
}

// stopSendingLocked drops the part of the body that was not sent.
func (st *Stream) stopSendingLocked() {
	st.finished = true
	st.body = nil
}

// shift removes the first n elements of a queue. It gives up the memory of a queue that
// is empty then.
func shift[T any](queue []*T, n int) []*T {
	clear(queue[:n])
	if n == len(queue) {
		return nil
	}
	return queue[n:]
}

// reused is a queue without its messages. An idle session keeps no large queue and
// nothing that the messages pointed to.
func reused(queue []Outbound) []Outbound {
	if cap(queue) > keptMessages {
		return nil
	}
	clear(queue)
	return queue[:0]
}
