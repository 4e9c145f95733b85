package session

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

const maxEndError = 1024

// handle takes one message from the agent. It never blocks. What it returns
// ends the connection. The message may be reused afterwards.
func (s *Session) handle(msg []byte) *Closing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= phaseClosing {
		return nil // frames of an older epoch, or behind a refusal
	}
	if f, ok := parseData(msg); ok {
		return s.onData(f)
	}
	frame := &agentv2.Frame{}
	if err := proto.Unmarshal(msg, frame); err != nil {
		return protocolError("a message is not a Frame")
	}
	if frame.GetStream() == 0 {
		return s.onConnection(frame)
	}
	return s.onStream(frame)
}

// onConnection takes a frame of stream 0. Needs the mutex.
func (s *Session) onConnection(f *agentv2.Frame) *Closing {
	s.seqIn++
	if f.GetSeq() != s.seqIn {
		return protocolError("a frame of stream 0 is missing or repeated")
	}
	if register, ok := f.GetBody().(*agentv2.Frame_Register); ok {
		return s.register(register.Register)
	}
	if s.phase != phaseLive {
		return protocolError("the first frame must be REGISTER, and the next waits for its answer")
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_Heartbeat:
		return s.onHeartbeat(body.Heartbeat)
	case *agentv2.Frame_Window:
		return s.onWindow(&s.sendCredit, body.Window)
	case *agentv2.Frame_Drain:
		s.draining = true
		s.registrar.Touch(s)
		return nil
	case *agentv2.Frame_Receipts:
		return s.onReceipts(body.Receipts)
	case *agentv2.Frame_Error:
		return closing(CodeProtocolError, "the agent reported an error")
	case nil:
		return nil // of a later version
	default:
		return protocolError("a frame on stream 0 is none that an agent sends there")
	}
}

// onStream takes a frame of a request, but for plain DATA. Needs the mutex.
func (s *Session) onStream(f *agentv2.Frame) *Closing {
	st := s.streams[f.GetStream()]
	if st == nil {
		if _, late := f.GetBody().(*agentv2.Frame_Window); late && f.GetStream() <= s.last {
			return nil // granted before the agent saw the stream's end
		}
		return protocolError("a frame is on a stream that is not open")
	}
	if data, ok := f.GetBody().(*agentv2.Frame_Data); ok {
		return s.onData(dataFrame{stream: f.GetStream(), seq: f.GetSeq(), bytes: data.Data.GetData()})
	}
	if why := st.count(f.GetSeq()); why != nil {
		return why
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_End:
		s.onEnd(st, body.End)
		return nil
	case *agentv2.Frame_Error:
		st.fail(ErrReset)
		s.forget(f.GetStream(), st)
		return nil
	case *agentv2.Frame_Window:
		if why := s.onWindow(&st.credit, body.Window); why != nil {
			return why
		}
		s.schedule(st)
		return nil
	case nil:
		return nil
	default:
		return protocolError("a frame on a request is none that an agent sends there")
	}
}

// count checks a frame's number and that the agent can know of the stream.
func (st *Stream) count(seq uint32) *Closing {
	st.seqIn++
	if seq != st.seqIn || !st.opened {
		return protocolError("a frame of a request is missing or repeated")
	}
	return nil
}

// onData needs the mutex.
func (s *Session) onData(f dataFrame) *Closing {
	st := s.streams[f.stream]
	if s.phase != phaseLive || st == nil {
		return protocolError("DATA is on a stream that is not open")
	}
	if why := st.count(f.seq); why != nil {
		return why
	}
	n := int64(len(f.bytes))
	s.counts.received(n)
	if n > maxData {
		return protocolError("DATA carries more than 16 KiB")
	}
	if n == 0 {
		return s.chat()
	}
	if s.recvCredit -= n; s.recvCredit < 0 {
		return closing(CodeWindowExceeded, "more was sent than the connection's credit")
	}
	if st.released {
		s.takenFromConn(n)
		return nil
	}
	if st.recv -= n; st.recv < 0 {
		s.takenFromConn(n)
		return s.exceeded(st)
	}
	st.in = append(st.in, f.bytes...)
	st.signal()
	return nil
}

// exceeded resets a stream whose agent ignores its credit; the second time the
// connection ends. Needs the mutex.
func (s *Session) exceeded(st *Stream) *Closing {
	if s.violations++; s.violations > 1 {
		return closing(CodeWindowExceeded, "more was sent than a stream's credit, again")
	}
	s.push(&agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Error{Error: &agentv2.Error{
		Code: CodeWindowExceeded, Message: "more was sent than the stream's credit",
	}}})
	st.fail(ErrReset)
	s.release(st, false)
	return nil
}

// onEnd needs the mutex.
func (s *Session) onEnd(st *Stream, end *agentv2.End) {
	st.ended = &End{
		Status: int(end.GetEngineStatus()), Complete: end.GetComplete(),
		Error: clean(end.GetError(), maxEndError), Busy: end.GetBusy(),
	}
	st.signal()
	s.forget(st.id, st)
}

// onWindow adds to a credit. Needs the mutex.
func (s *Session) onWindow(credit *int64, w *agentv2.Window) *Closing {
	if *credit += int64(w.GetBytes()); *credit > math.MaxInt32 {
		return protocolError("more credit was granted than a window can hold")
	}
	s.signal()
	return nil
}

// onHeartbeat needs the mutex.
func (s *Session) onHeartbeat(h *agentv2.Heartbeat) *Closing {
	if why := s.chat(); why != nil {
		return why
	}
	if len(h.GetModels()) > maxModels {
		return closing(CodeTooManyModels, "at most 256 models can be offered")
	}
	s.heartbeat.Reset(s.cfg.SessionTimeout)
	s.push(&agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: &agentv2.HeartbeatAck{}}})
	if len(h.GetModels()) > 0 && s.differs(h.GetModels()) {
		s.offer(h.GetModels())
		s.registrar.Touch(s)
	}
	return nil
}

// differs tells whether a heartbeat says anything new. Needs the mutex.
func (s *Session) differs(list []*agentv2.ModelOffer) bool {
	if len(list) != len(s.order) {
		return true
	}
	for _, o := range list {
		m := s.models[o.GetModelId()]
		if m == nil || m.offer != offerOf(o) {
			return true
		}
	}
	return false
}

// chat spends a token for what an agent may send without having been asked.
func (s *Session) chat() *Closing {
	if !s.chatter.take(s.clock.Now()) {
		return protocolError("too many heartbeats, pings or empty frames")
	}
	return nil
}

// onPing keeps the answer to a ping for the writer; of several that wait only
// the last is answered, as the WebSocket standard allows.
func (s *Session) onPing(payload string) *Closing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pong, s.pongDue = append(s.pong[:0], payload...), true
	s.signal()
	return s.chat()
}

// onPong tells the writer that the agent lives.
func (s *Session) onPong() *Closing {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pongSeen = true
	s.signal()
	return s.chat()
}

// begin starts the time to register.
func (s *Session) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = time.AfterFunc(s.cfg.RegisterTimeout, s.late)
}
