package connection

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/endpoint"
)

var (
	errCancelled = errors.New("cancelled by the hub")
	errTimeout   = errors.New("the request's time is over")
	errBodyLate  = errors.New("the request's body did not arrive in time")
	errLost      = errors.New("the connection to the hub ended")
)

// handle takes one message from the hub. It never blocks. What it returns ends
// the connection.
func (s *session) handle(msg []byte) *ending {
	frame := &agentv2.Frame{}
	if err := proto.Unmarshal(msg, frame); err != nil {
		return protocolError("a message is not a Frame")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == phaseOver:
		return nil
	case frame.GetStream() == 0:
		return s.onConnection(frame)
	case s.phase != phaseLive:
		return protocolError("a request came before the registration was answered")
	default:
		return s.onStream(frame)
	}
}

// onConnection takes a frame of stream 0. Needs the mutex.
func (s *session) onConnection(f *agentv2.Frame) *ending {
	s.seqIn++
	if f.GetSeq() != s.seqIn {
		return protocolError("a frame of stream 0 is missing or repeated")
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_RegisterAck:
		if s.phase != phaseRegistering {
			return protocolError("the registration was answered twice")
		}
		s.phase, s.ack = phaseLive, body.RegisterAck
		close(s.acked)
		return nil
	case *agentv2.Frame_HeartbeatAck:
		return nil
	case *agentv2.Frame_Window:
		return s.onWindow(&s.credit, body.Window)
	case *agentv2.Frame_ReceiptAck:
		s.onReceiptAck(body.ReceiptAck)
		return nil
	case *agentv2.Frame_Warmup:
		s.onWarmup(body.Warmup.GetModelId())
		return nil
	case *agentv2.Frame_Drain:
		return s.onDrain(milliseconds(body.Drain.GetReconnectAfterMs()))
	case *agentv2.Frame_Error:
		return &ending{
			code: cut(clean(body.Error.GetCode()), maxError), text: cut(clean(body.Error.GetMessage()), maxError),
			after: milliseconds(body.Error.GetReconnectAfterMs()),
		}
	case nil:
		return nil // of a later version
	default:
		return protocolError("a frame on stream 0 is none that a hub sends there")
	}
}

// milliseconds bounds what a hub says, so that nothing overflows.
func milliseconds(ms int64) time.Duration {
	return time.Duration(max(0, min(ms, toldMost.Milliseconds()))) * time.Millisecond
}

// clean keeps what a log can show in one line.
func clean(text string) string {
	out := make([]rune, 0, min(len(text), maxError))
	for _, r := range text {
		if r >= ' ' && r != 0x7f && len(out) < maxError {
			out = append(out, r)
		}
	}
	return string(out)
}

// onStream takes a frame of a request. Needs the mutex.
func (s *session) onStream(f *agentv2.Frame) *ending {
	if open, ok := f.GetBody().(*agentv2.Frame_Open); ok {
		return s.onOpen(f.GetStream(), f.GetSeq(), open.Open)
	}
	if f.GetStream() > s.last {
		return protocolError("a frame is on a stream that was not opened")
	}
	data, isData := f.GetBody().(*agentv2.Frame_Data)
	if isData {
		n := int64(len(data.Data.GetData()))
		if n > maxData {
			return protocolError("DATA carries more than 16 KiB")
		}
		if s.recv -= n; s.recv < 0 {
			return windowExceeded("more was sent than the connection's credit")
		}
		s.received(n)
	}
	st := s.streams[f.GetStream()]
	if st == nil {
		return nil // it crossed our END
	}
	st.seqIn++
	if f.GetSeq() != st.seqIn {
		return protocolError("a frame of a request is missing or repeated")
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_Data:
		return s.onData(st, body.Data)
	case *agentv2.Frame_Window:
		why := s.onWindow(&st.credit, body.Window)
		s.schedule(st)
		return why
	case *agentv2.Frame_Cancel:
		s.onCancel(st, errCancelled)
		return nil
	case *agentv2.Frame_Error:
		s.onCancel(st, errors.New("reset by the hub: "+cut(clean(body.Error.GetCode()), 64)))
		return nil
	case nil:
		return nil
	default:
		return protocolError("a frame on a request is none that a hub sends there")
	}
}

// onOpen begins a request, or answers that it cannot be taken. Needs the mutex.
func (s *session) onOpen(id, seq uint32, o *agentv2.Open) *ending {
	if id <= s.last {
		return protocolError("a stream's number was used again")
	}
	if seq != 1 {
		return protocolError("OPEN is not the first frame of its stream")
	}
	s.last = id
	kind, known := endpointOf(o.GetEndpoint())
	if end := s.refuse(o, kind, known); end != nil {
		s.push(&agentv2.Frame{Stream: id, Seq: 1, Body: &agentv2.Frame_End{End: end}})
		return nil
	}
	timeout := time.Duration(min(o.GetTimeoutMs(), requestMost.Milliseconds())) * time.Millisecond
	if timeout <= 0 {
		timeout = requestDefault
	}
	ctx, stop := context.WithTimeoutCause(s.ctx, timeout+hubFirst, errTimeout)
	s.streams[id] = &stream{
		session: s, id: id, ctx: ctx, stop: stop, reserve: int64(o.GetBodyLength()), room: make(chan struct{}, 1),
		bodyLength: int(o.GetBodyLength()), seqIn: 1, recv: streamWindow, credit: streamWindow,
		attempt: o.GetAttempt(), proof: o.GetProof(),
		// What is served besides chat is not counted as it is sent.
		counted: s.receipts != nil && len(o.GetProof()) > 0 && kind == endpoint.Chat, count: counter{stream: o.GetStream()},
		request: Request{
			ID: o.GetRequestId(), ModelID: o.GetModelId(), Endpoint: kind, Stream: o.GetStream(),
			Body: make([]byte, 0, o.GetBodyLength()), ContentType: o.GetContentType(),
			ModelOffset: int(o.GetModelOffset()), ModelLength: int(o.GetModelLength()), Traceparent: o.GetTraceparent(),
		},
	}
	return nil
}

// refuse says why a request is not taken; when it returns nil a slot and the
// body's memory are reserved. Needs the mutex.
func (s *session) refuse(o *agentv2.Open, kind endpoint.Endpoint, known bool) *agentv2.End {
	length := int64(o.GetBodyLength())
	switch {
	case !known || !kind.Declared(s.cfg.Capabilities):
		return &agentv2.End{Error: "the agent does not serve this endpoint"}
	case !mediaType(o.GetContentType()):
		return &agentv2.End{Error: "the body's media type is malformed"}
	case s.draining:
		return &agentv2.End{Busy: true, Error: "the agent is about to stop"}
	case len(s.streams) >= s.slots.sum+spareStreams:
		return &agentv2.End{Busy: true, Error: "too many requests are open"}
	case length > s.cfg.MaxRequestBytes:
		return &agentv2.End{Error: "the request's body is larger than the agent takes"}
	case o.GetModelLength() < 1 || int64(o.GetModelOffset())+int64(o.GetModelLength()) > length:
		return &agentv2.End{Error: "the model's place is not in the request's body"}
	}
	switch s.slots.take(o.GetModelId(), length) {
	case notOffered:
		return &agentv2.End{Error: "the model is not served here"}
	case noSlot:
		return &agentv2.End{Busy: true, Error: "every slot of the model is taken"}
	case noMemory:
		return &agentv2.End{Busy: true, Error: "the agent's memory for request bodies is used up"}
	case granted:
	}
	return nil
}

// endpointOf is false for what a later hub may ask for.
func endpointOf(e agentv2.Endpoint) (endpoint.Endpoint, bool) {
	switch e {
	case agentv2.Endpoint_ENDPOINT_UNSPECIFIED, agentv2.Endpoint_ENDPOINT_CHAT:
		return endpoint.Chat, true
	case agentv2.Endpoint_ENDPOINT_EMBEDDINGS:
		return endpoint.Embeddings, true
	case agentv2.Endpoint_ENDPOINT_IMAGES:
		return endpoint.Images, true
	case agentv2.Endpoint_ENDPOINT_TRANSCRIPTIONS:
		return endpoint.Transcriptions, true
	}
	return 0, false
}

// maxMediaType bounds a body's media type, in bytes.
const maxMediaType = 256

// mediaType lets only what is harmless in a header through.
func mediaType(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= maxMediaType
}

// onData takes a piece of a request's body. Needs the mutex.
func (s *session) onData(st *stream, d *agentv2.Data) *ending {
	n := len(d.GetData())
	if st.recv -= int64(n); st.recv < 0 {
		return windowExceeded("more was sent than a stream's credit")
	}
	switch {
	case st.end != nil:
		return nil // given up already; END is on its way
	case st.started:
		return protocolError("DATA follows the end of a request's body")
	case len(st.request.Body)+n > st.bodyLength, d.GetFin() && len(st.request.Body)+n < st.bodyLength:
		return protocolError("a request's body is not of the length that OPEN named")
	}
	st.request.Body = append(st.request.Body, d.GetData()...)
	if d.GetFin() {
		s.start(st)
		return nil
	}
	if st.owed += int64(n); st.owed >= streamWindow/4 {
		st.recv += st.owed
		// END is not queued, so the frame's number is the next.
		st.seqOut++
		s.push(window(st.id, st.seqOut, st.owed))
		st.owed = 0
	}
	return nil
}

// received grants the connection's credit again: bodies are bounded by their
// reservation, not by it. Needs the mutex.
func (s *session) received(n int64) {
	if s.owed += n; s.owed >= connWindow/4 {
		s.recv += s.owed
		s.push(window(0, 0, s.owed))
		s.owed = 0
	}
}

func window(stream, seq uint32, bytes int64) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: uint32(bytes)}}}
}

// onWindow adds to a credit. Needs the mutex.
func (s *session) onWindow(credit *int64, w *agentv2.Window) *ending {
	if *credit += int64(w.GetBytes()); *credit > math.MaxInt32 {
		return protocolError("more credit was granted than a window can hold")
	}
	s.signal()
	return nil
}

// onCancel stops the engine. END follows when it has stopped. Needs the mutex.
func (s *session) onCancel(st *stream, why error) {
	switch {
	case st.end != nil: // the engine is done; nobody wants what waits
		st.drop(why)
		st.end.Complete = false
		s.schedule(st)
	case !st.started:
		s.giveUp(st, why)
	default:
		st.drop(why)
	}
}
