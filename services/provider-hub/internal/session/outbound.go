package session

import (
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/meter"
)

// batchBytes is about how much one write to a socket carries.
const batchBytes = 64 << 10

// frameOverhead is more than a frame is larger than its payload.
const frameOverhead = 64

// push queues a control frame. Needs the mutex.
func (s *Session) push(f *agentv2.Frame) {
	if s.phase >= phaseClosing {
		return
	}
	if len(s.control) >= maxControl {
		// The agent asks for answers and does not read them.
		s.shut(protocolError("answers are not read"))
		return
	}
	s.control = append(s.control, f)
	s.signal()
}

// outbox is what the writer is to send next.
type outbox struct {
	frames   []*agentv2.Frame
	ping     bool   // somebody wants to know whether the agent is there
	pong     []byte // the answer to the agent's ping, if pongDue
	pongDue  bool
	answered bool // the agent answered our ping
	more     bool // there is more to send at once
	closing  *Closing
}

// next fills the outbox: control first, then new requests, then one piece of
// each body in turn, until a batch is full or credit is used up.
func (s *Session) next(o *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.frames = o.frames[:0]
	o.ping, s.probe = s.probe, false
	o.answered, s.pongSeen = s.pongSeen, false
	o.pong = append(o.pong[:0], s.pong...)
	o.pongDue, s.pongDue = s.pongDue, false
	o.more = false
	if s.closing != nil {
		o.closing = s.closing
		o.frames = append(o.frames, s.number(errorFrame(s.closing)))
		return
	}
	room := batchBytes
	for _, f := range s.control {
		if f.GetStream() != 0 && s.streams[f.GetStream()] == nil {
			continue // the stream has ended meanwhile
		}
		o.frames = append(o.frames, s.number(f))
		room -= frameOverhead
	}
	s.control = clearFrames(s.control)
	room = s.takeRequests(o, room)
	room = s.takeBodies(o, room)
	o.more = room <= 0
	s.counts.sent(int64(len(o.frames)))
}

func errorFrame(c *Closing) *agentv2.Frame {
	return &agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{
		Code: c.Code, Message: c.Message, ReconnectAfterMs: c.ReconnectAfter.Milliseconds(),
	}}}
}

// clearFrames empties a queue without keeping a large one for an idle session.
func clearFrames(queue []*agentv2.Frame) []*agentv2.Frame {
	if cap(queue) > 64 {
		return nil
	}
	clear(queue)
	return queue[:0]
}

// number gives a frame its place on its stream, which must be open. Needs the
// mutex.
func (s *Session) number(f *agentv2.Frame) *agentv2.Frame {
	if f.GetStream() == 0 {
		s.seqOut++
		f.Seq = s.seqOut
		return f
	}
	st := s.streams[f.GetStream()]
	st.seqOut++
	f.Seq = st.seqOut
	return f
}

// takeRequests sends OPEN of each new request, and its body too when that is
// small. Needs the mutex.
func (s *Session) takeRequests(o *outbox, room int) int {
	n := 0
	for ; n < len(s.interactive) && room > 0; n++ {
		st := s.interactive[n]
		if s.streams[st.id] != st {
			continue // given up before the agent heard of it
		}
		st.opened = true
		o.frames = append(o.frames, s.number(openFrame(st)))
		room -= frameOverhead + len(st.request.Model) + len(st.request.RequestID)
		if len(st.request.Body) <= maxData {
			room -= s.takePiece(o, st)
		}
		s.schedule(st)
	}
	s.interactive = shift(s.interactive, n)
	return room
}

// takeBodies sends one piece of each body in turn. Needs the mutex.
func (s *Session) takeBodies(o *outbox, room int) int {
	for len(s.bulk) > 0 && room > 0 && s.sendCredit > 0 {
		st := s.bulk[0]
		s.bulk = shift(s.bulk, 1)
		st.queued = false
		room -= s.takePiece(o, st)
		s.schedule(st)
	}
	return room
}

// schedule puts a stream into the ring if it has something to send and credit
// for it. Needs the mutex.
func (s *Session) schedule(st *Stream) {
	if st.queued || st.finished || !st.opened || st.credit <= 0 || s.streams[st.id] != st {
		return
	}
	st.queued = true
	s.bulk = append(s.bulk, st)
}

// takePiece sends the next piece of a body as far as credit goes, and returns
// its size. Needs the mutex.
func (s *Session) takePiece(o *outbox, st *Stream) int {
	if st.finished || s.streams[st.id] != st {
		return 0
	}
	rest := st.request.Body[st.sent:]
	n := int(min(int64(len(rest)), maxData, st.credit, s.sendCredit))
	if n == 0 && len(rest) > 0 {
		return 0
	}
	st.sent += n
	st.credit -= int64(n)
	s.sendCredit -= int64(n)
	fin := st.sent == len(st.request.Body)
	o.frames = append(o.frames, s.number(&agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Data{
		Data: &agentv2.Data{Data: rest[:n], Fin: fin},
	}}))
	if fin {
		st.stopSending()
	}
	return n + frameOverhead
}

func openFrame(st *Stream) *agentv2.Frame {
	r := &st.request
	return &agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Open{Open: &agentv2.Open{
		RequestId: r.RequestID, Attempt: r.Attempt, ModelId: r.Model, Stream: r.Stream,
		ModelOffset: r.ModelOffset, ModelLength: r.ModelLength, BodyLength: uint32(len(r.Body)),
		Traceparent: r.Traceparent, TimeoutMs: r.Timeout.Milliseconds(), Proof: r.Proof,
		Endpoint: endpointOf(r.Kind), ContentType: r.ContentType,
	}}}
}

// endpointOf leaves chat unnamed, as agents know it that know no other.
func endpointOf(k meter.Kind) agentv2.Endpoint {
	switch k {
	case meter.Embeddings:
		return agentv2.Endpoint_ENDPOINT_EMBEDDINGS
	case meter.Images:
		return agentv2.Endpoint_ENDPOINT_IMAGES
	case meter.Transcriptions:
		return agentv2.Endpoint_ENDPOINT_TRANSCRIPTIONS
	case meter.Chat:
	}
	return agentv2.Endpoint_ENDPOINT_UNSPECIFIED
}

// shift removes the first n of a queue, giving its memory up when it is empty.
func shift(queue []*Stream, n int) []*Stream {
	clear(queue[:n])
	if n == len(queue) {
		return nil
	}
	return queue[n:]
}
