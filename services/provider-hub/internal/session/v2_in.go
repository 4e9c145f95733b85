package session

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// receive implements dialect.
func (d *v2) receive(msg []byte) *Closing {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= phaseClosing {
		return nil // frames of an older epoch, or behind a refusal
	}
	if f, ok := parseData(msg); ok {
		return d.onData(f)
	}
	frame := &agentv2.Frame{}
	if err := proto.Unmarshal(msg, frame); err != nil {
		return protocolError("a message is not a Frame")
	}
	if frame.GetStream() == 0 {
		return d.onConnection(frame)
	}
	return d.onStream(frame)
}

// discarded implements dialect: messages of v2 are never large.
func (d *v2) discarded([]byte, int64) *Closing { return nil }

// onConnection takes a frame of stream 0. Needs the mutex.
func (d *v2) onConnection(f *agentv2.Frame) *Closing {
	s := d.s
	d.seqIn++
	if f.GetSeq() != d.seqIn {
		return protocolError("a frame of stream 0 is missing or repeated")
	}
	if register, ok := f.GetBody().(*agentv2.Frame_Register); ok {
		return d.register(register.Register)
	}
	if s.phase != phaseLive {
		return protocolError("the first frame must be REGISTER, and the next waits for its answer")
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_Heartbeat:
		return d.onHeartbeat(body.Heartbeat)
	case *agentv2.Frame_Window:
		return d.onWindow(&d.sendCredit, body.Window)
	case *agentv2.Frame_Drain:
		if why := s.chat(); why != nil {
			return why
		}
		if !s.draining {
			s.draining = true
			s.house.registrar.Touch(s)
		}
		return nil
	case *agentv2.Frame_Receipts:
		return s.onReceipts(body.Receipts)
	case *agentv2.Frame_WarmupResult:
		return d.onWarmup(body.WarmupResult)
	case *agentv2.Frame_Error:
		return closing(CodeProtocolError, "the agent reported an error")
	case nil:
		return s.chat() // of a later version
	default:
		return protocolError("a frame on stream 0 is none that an agent sends there")
	}
}

// onStream takes a frame of a request, but for plain DATA. Needs the mutex.
func (d *v2) onStream(f *agentv2.Frame) *Closing {
	s := d.s
	st := s.streams[f.GetStream()]
	if st == nil {
		if _, late := f.GetBody().(*agentv2.Frame_Window); late && f.GetStream() <= s.last {
			return d.spend() // granted before the agent saw the stream's end
		}
		return protocolError("a frame is on a stream that is not open")
	}
	if data, ok := f.GetBody().(*agentv2.Frame_Data); ok {
		return d.onData(dataFrame{stream: f.GetStream(), seq: f.GetSeq(), bytes: data.Data.GetData()})
	}
	flow := d.at(st)
	if why := flow.count(f.GetSeq()); why != nil {
		return why
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_End:
		s.conclude(st, End{
			Status: int(body.End.GetEngineStatus()), Complete: body.End.GetComplete(),
			Error: body.End.GetError(), Busy: body.End.GetBusy(),
		})
		return d.spend()
	case *agentv2.Frame_Error:
		st.fail(ErrReset)
		s.forget(st)
		return d.spend()
	case *agentv2.Frame_Window:
		if why := d.onWindow(&flow.credit, body.Window); why != nil {
			return why
		}
		d.schedule(flow)
		return nil
	case nil:
		return s.chat()
	default:
		return protocolError("a frame on a request is none that an agent sends there")
	}
}

// count checks a frame's number and that the agent can know of the stream.
func (st *v2Stream) count(seq uint32) *Closing {
	st.seqIn++
	if seq != st.seqIn || !st.opened {
		return protocolError("a frame of a request is missing or repeated")
	}
	return nil
}

// onData needs the mutex.
func (d *v2) onData(f dataFrame) *Closing {
	s := d.s
	st := s.streams[f.stream]
	if s.phase != phaseLive || st == nil {
		return protocolError("DATA is on a stream that is not open")
	}
	flow := d.at(st)
	if why := flow.count(f.seq); why != nil {
		return why
	}
	n := int64(len(f.bytes))
	s.house.counts.received(n)
	if n > maxData {
		return protocolError("DATA carries more than 16 KiB")
	}
	if n == 0 {
		return s.chat()
	}
	if d.recvCredit -= n; d.recvCredit < 0 {
		return closing(CodeWindowExceeded, "more was sent than the connection's credit")
	}
	if st.released {
		d.takenFromConn(n)
		return nil
	}
	if flow.recv -= n; flow.recv < 0 {
		d.takenFromConn(n)
		return d.exceeded(st)
	}
	if !st.delivered(len(f.bytes)) {
		d.takenFromConn(n)
		st.fail(ErrNoRoom)
		s.release(st, true)
		return nil
	}
	st.in = append(st.in, f.bytes...)
	return nil
}

// exceeded resets a stream whose agent ignores its credit; the second time the
// connection ends. Needs the mutex.
func (d *v2) exceeded(st *Stream) *Closing {
	s := d.s
	if s.violations++; s.violations > 1 {
		return closing(CodeWindowExceeded, "more was sent than a stream's credit, again")
	}
	d.push(&agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Error{Error: &agentv2.Error{
		Code: CodeWindowExceeded, Message: "more was sent than the stream's credit",
	}}})
	st.fail(ErrReset)
	s.release(st, false)
	return nil
}

// onWindow adds to a credit. One that grants nothing earns nothing. Needs the
// mutex.
func (d *v2) onWindow(credit *int64, w *agentv2.Window) *Closing {
	if w.GetBytes() == 0 {
		return d.s.chat()
	}
	if why := d.spend(); why != nil {
		return why
	}
	if *credit += int64(w.GetBytes()); *credit > math.MaxInt32 {
		return protocolError("more credit was granted than a window can hold")
	}
	d.s.signal()
	return nil
}

// onWarmup needs the mutex.
func (d *v2) onWarmup(r *agentv2.WarmupResult) *Closing {
	if why := d.s.chat(); why != nil {
		return why
	}
	d.s.warmed(Warmed{
		Model: r.GetModelId(), Success: r.GetSuccess(), Error: r.GetError(), NotTried: r.GetNotTried(),
		LoadTime: time.Duration(min(max(r.GetLoadTimeMs(), 0), time.Hour.Milliseconds())) * time.Millisecond,
	})
	return nil
}
