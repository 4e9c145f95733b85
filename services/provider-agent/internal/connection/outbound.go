package connection

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// askHeard is the payload of the ping that follows DRAIN.
const askHeard = "drain"

// batchBytes is about how much one write to the socket carries.
const batchBytes = 64 << 10

// Field numbers of Frame and Data.
const (
	fieldStream = 1
	fieldSeq    = 2
	fieldData   = 8
	fieldBytes  = 1
)

// batch is what the writer is to send next. Its memory is used again.
type batch struct {
	bytes []byte // encoded frames, one after the other
	ends  []int  // where each frame ends in bytes
	ping  bool
	pong  []byte // nil when none is due
	// drains is set when the hub is told by it that no new requests are taken, and
	// asks when it is then asked whether it has read so.
	drains, asks bool
	// closing is set when the session is over; nothing follows.
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
	encoded, err := proto.MarshalOptions{}.MarshalAppend(b.bytes, f)
	if err != nil {
		return err
	}
	b.bytes = encoded
	b.ends = append(b.ends, len(b.bytes))
	return nil
}

// data appends the frame that makes up nearly all traffic, without allocating.
func (b *batch) data(stream, seq uint32, piece []byte) {
	inner := protowire.SizeTag(fieldBytes) + protowire.SizeBytes(len(piece))
	b.bytes = protowire.AppendTag(b.bytes, fieldStream, protowire.VarintType)
	b.bytes = protowire.AppendVarint(b.bytes, uint64(stream))
	b.bytes = protowire.AppendTag(b.bytes, fieldSeq, protowire.VarintType)
	b.bytes = protowire.AppendVarint(b.bytes, uint64(seq))
	b.bytes = protowire.AppendTag(b.bytes, fieldData, protowire.BytesType)
	b.bytes = protowire.AppendVarint(b.bytes, uint64(inner))
	b.bytes = protowire.AppendTag(b.bytes, fieldBytes, protowire.BytesType)
	b.bytes = protowire.AppendBytes(b.bytes, piece)
	b.ends = append(b.ends, len(b.bytes))
}

// push queues a control frame. Frames of stream 0 are numbered when they are
// sent, those of requests by the caller. Needs the mutex.
func (s *session) push(f *agentv2.Frame) {
	if s.phase == phaseOver {
		return
	}
	if len(s.control) >= maxControl {
		// The hub asks for answers and does not read them.
		s.shut(protocolError("answers are not read"))
		return
	}
	s.control = append(s.control, f)
	s.signal()
}

// schedule puts a stream into the ring if something can be sent of it. Needs
// the mutex.
func (s *session) schedule(st *stream) {
	if st.queued || !st.due() || s.phase == phaseOver {
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
			s.seqOut++
			f.Seq = s.seqOut
			b.drains = b.drains || f.GetDrain() != nil
		}
		if err := b.frame(f); err != nil {
			return err
		}
	}
	clear(s.control)
	s.control = s.control[:0]
	if s.end != nil {
		b.closing = s.end
		return s.farewell(b)
	}
	if err := s.answers(b); err != nil {
		return err
	}
	return s.claim(b)
}

// farewell tells the hub what it did wrong. Needs the mutex.
func (s *session) farewell(b *batch) error {
	if !s.end.ours || s.end.code == "" {
		return nil
	}
	s.seqOut++
	return b.frame(&agentv2.Frame{Seq: s.seqOut, Body: &agentv2.Frame_Error{Error: &agentv2.Error{
		Code: s.end.code, Message: s.end.text,
	}}})
}

// answers needs the mutex.
func (s *session) answers(b *batch) error {
	var parked []*stream // have credit of their own, the connection has none
	for len(s.ring) > 0 && len(b.bytes) < batchBytes {
		st := s.ring[0]
		s.ring[0] = nil
		s.ring = s.ring[1:]
		if st.pending() > 0 && st.credit > 0 && s.credit <= 0 {
			parked = append(parked, st)
			continue
		}
		st.queued = false
		if err := s.piece(b, st); err != nil {
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
	s.endIfDrained()
	return nil
}

// piece sends the next piece of an answer, or its END. Needs the mutex.
func (s *session) piece(b *batch, st *stream) error {
	if n := min(int64(st.pending()), maxData, st.credit, s.credit); n > 0 {
		st.credit -= n
		s.credit -= n
		st.seqOut++
		b.data(st.id, st.seqOut, st.take(int(n)))
	}
	if st.pending() > 0 || st.end == nil {
		s.schedule(st)
		return nil
	}
	st.seqOut++
	s.receipt(st, st.end.GetComplete())
	delete(s.streams, st.id)
	return b.frame(&agentv2.Frame{Stream: st.id, Seq: st.seqOut, Body: &agentv2.Frame_End{End: st.end}})
}
