package connection

import (
	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// askHeard is the payload of the ping that follows DRAIN.
const askHeard = "drain"

// batchBytes is about how much one write to the socket carries.
const batchBytes = 64 << 10

// batch is the writer's next batch. Its memory is used again.
type batch struct {
	bytes []byte // encoded frames, one after the other
	ends  []int  // where each frame ends in bytes
	ping  bool
	pong  []byte // nil when none is due
	// drains reports that the batch says that no new requests are taken. asks reports
	// that it then asks whether the hub has read that.
	drains, asks bool
	// closing is why the session is over; nothing follows then.
	closing *ending
}

func (b *batch) reset() {
	b.bytes, b.ends = b.bytes[:0], b.ends[:0]
	b.ping, b.pong, b.drains, b.asks = false, nil, false, false
}

func (b *batch) empty() bool {
	return len(b.ends) == 0 && !b.ping && !b.asks && b.pong == nil && b.closing == nil
}

// frame appends any frame.
func (b *batch) frame(f *agentv2.Frame) error {
	encoded, err := frame.Append(b.bytes, f)
	if err != nil {
		return err
	}
	b.bytes = encoded
	b.ends = append(b.ends, len(b.bytes))
	return nil
}

// data appends a DATA frame, which makes up nearly all traffic, without allocating.
func (b *batch) data(stream, seq uint32, piece []byte) {
	b.bytes = frame.AppendData(b.bytes, frame.Data{Stream: stream, Seq: seq, Bytes: piece})
	b.ends = append(b.ends, len(b.bytes))
}

// pushLocked queues a control frame. Frames of stream 0 are numbered when they are sent,
// and frames of requests by the caller.
func (s *session) pushLocked(f *agentv2.Frame) {
	if s.state == over {
		return
	}
	if len(s.control) >= agentwire.MaxWaiting {
		// The hub asks for answers and does not read them.
		s.endLocked(fails, protocolError("answers are not read"))
		return
	}
	s.control = append(s.control, f)
	s.signal()
}

// scheduleLocked puts a stream into the ring if it has something that can be sent.
func (s *session) scheduleLocked(st *stream) {
	if st.queued || !st.dueLocked() || s.state == over {
		return
	}
	st.queued = true
	s.ring = append(s.ring, st)
	s.signal()
}

// next fills a batch: control first, then one piece of each answer in turn,
// until the batch is full or credit is used up, then receipts.
func (s *session) next(b *batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.reset()
	b.ping, s.pingDue = s.pingDue, false
	b.asks, s.askDue = s.askDue, false
	if s.pongDue {
		b.pong, s.pongDue = append([]byte{}, s.pong...), false
	}
	for _, f := range s.control {
		if f.GetStream() == 0 {
			f.Seq = s.seqOut.Next()
			b.drains = b.drains || f.GetDrain() != nil
		}
		if err := b.frame(f); err != nil {
			return err
		}
	}
	clear(s.control)
	s.control = s.control[:0]
	if s.why != nil {
		b.closing = s.why
		return s.farewellLocked(b)
	}
	if err := s.answersLocked(b); err != nil {
		return err
	}
	return s.claimLocked(b)
}

// farewellLocked tells the hub what it did wrong.
func (s *session) farewellLocked(b *batch) error {
	if !s.why.ours || s.why.code == "" {
		return nil
	}
	return b.frame(&agentv2.Frame{Seq: s.seqOut.Next(), Body: &agentv2.Frame_Error{Error: &agentv2.Error{
		Code: s.why.code, Message: s.why.text,
	}}})
}

// answersLocked sends waiting parts of answers, one piece of each in turn.
func (s *session) answersLocked(b *batch) error {
	var parked []*stream // have credit of their own while the connection has none
	for len(s.ring) > 0 && len(b.bytes) < batchBytes {
		st := s.ring[0]
		s.ring[0] = nil
		s.ring = s.ring[1:]
		if st.pendingLocked() > 0 && st.credit > 0 && s.credit <= 0 {
			parked = append(parked, st)
			continue
		}
		st.queued = false
		if err := s.pieceLocked(b, st); err != nil {
			return err
		}
	}
	s.ring = append(s.ring, parked...)
	if len(s.ring) == 0 {
		s.ring = nil
	}
	if len(b.bytes) >= batchBytes {
		s.signal()
	}
	s.emptiedLocked()
	return nil
}

// pieceLocked sends the next piece of an answer, or its END.
func (s *session) pieceLocked(b *batch, st *stream) error {
	if n := agentwire.Spend(st.pendingLocked(), &st.credit, &s.credit); n > 0 {
		b.data(st.id, st.seqOut.Next(), st.takeLocked(n))
	}
	if st.pendingLocked() > 0 || st.end == nil {
		s.scheduleLocked(st)
		return nil
	}
	s.receiptLocked(st, st.end.GetComplete())
	delete(s.streams, st.id)
	return b.frame(&agentv2.Frame{Stream: st.id, Seq: st.seqOut.Next(), Body: &agentv2.Frame_End{End: st.end}})
}
