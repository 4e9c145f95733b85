package connection

import (
	"context"
	"errors"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/endpoint"
)

var (
	errCancelled = errors.New("cancelled by the hub")
	errTimeout   = errors.New("the request's time is over")
	errBodyLate  = errors.New("the request's body did not arrive in time")
	errLost      = errors.New("the connection to the hub ended")
)

// read decodes a message. DATA, the most frequent frame, costs less than the others.
func read(msg []byte) (*agentv2.Frame, error) {
	d, ok := frame.ReadData(msg)
	if !ok {
		return frame.Read(msg)
	}
	return &agentv2.Frame{Stream: d.Stream, Seq: d.Seq, Body: &agentv2.Frame_Data{
		Data: &agentv2.Data{Data: d.Bytes, Fin: d.Fin},
	}}, nil
}

// handle takes one message of the hub. It never blocks. The ending that it returns ends
// the connection.
func (s *session) handle(msg []byte) *ending {
	f, err := read(msg)
	if err != nil {
		return protocolError(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == over:
		return nil
	case f.GetStream() == 0:
		return s.onConnectionLocked(f)
	case !s.state.registered():
		return protocolError("a request came before the registration was answered")
	default:
		return s.onStreamLocked(f)
	}
}

// onConnectionLocked takes a frame of stream 0.
func (s *session) onConnectionLocked(f *agentv2.Frame) *ending {
	if !s.seqIn.Follows(f.GetSeq()) {
		return protocolError("a frame of stream 0 is missing or repeated")
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_RegisterAck:
		if !s.pullLocked(acknowledged) {
			return protocolError("the registration was answered twice")
		}
		s.ack = body.RegisterAck
		close(s.acked)
		return nil
	case *agentv2.Frame_HeartbeatAck:
		s.onHeartbeatAckLocked(body.HeartbeatAck)
		return nil
	case *agentv2.Frame_Window:
		return s.onWindowLocked(&s.credit, body.Window)
	case *agentv2.Frame_ReceiptAck:
		s.onReceiptAckLocked(body.ReceiptAck)
		return nil
	case *agentv2.Frame_Warmup:
		s.onWarmupLocked(body.Warmup.GetModelId())
		return nil
	case *agentv2.Frame_Challenge:
		s.onChallengeLocked(body.Challenge)
		return nil
	case *agentv2.Frame_Drain:
		return s.onDrainLocked(milliseconds(body.Drain.GetReconnectAfterMs()))
	case *agentv2.Frame_Error:
		return &ending{
			code: cut(clean(body.Error.GetCode()), maxError), text: cut(clean(body.Error.GetMessage()), maxError),
			after: milliseconds(body.Error.GetReconnectAfterMs()),
		}
	case nil:
		return nil // a frame of a later version
	default:
		return protocolError("a frame on stream 0 is none that a hub sends there")
	}
}

// onHeartbeatAckLocked keeps the latest answer for the goroutine that keeps the session.
func (s *session) onHeartbeatAckLocked(ack *agentv2.HeartbeatAck) {
	select {
	case <-s.beats:
	default:
	}
	s.beats <- ack // only this goroutine adds
}

// milliseconds bounds a number of the hub's, so that nothing overflows.
func milliseconds(ms int64) time.Duration {
	return time.Duration(max(0, min(ms, maxHubPause.Milliseconds()))) * time.Millisecond
}

// onStreamLocked takes a frame of a request.
func (s *session) onStreamLocked(f *agentv2.Frame) *ending {
	if open, ok := f.GetBody().(*agentv2.Frame_Open); ok {
		return s.onOpenLocked(f.GetStream(), f.GetSeq(), open.Open)
	}
	if f.GetStream() > s.last {
		return protocolError("a frame is on a stream that was not opened")
	}
	data, isData := f.GetBody().(*agentv2.Frame_Data)
	if isData {
		n := int64(len(data.Data.GetData()))
		if n > agentwire.MaxData {
			return protocolError("DATA carries more than 16 KiB")
		}
		if !s.recv.Take(n) {
			return windowExceeded("more was sent than the connection's credit")
		}
		s.receivedLocked(n)
	}
	st := s.streams[f.GetStream()]
	if st == nil {
		return nil // the frame crossed our END
	}
	if !st.seqIn.Follows(f.GetSeq()) {
		return protocolError("a frame of a request is missing or repeated")
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_Data:
		return s.onDataLocked(st, body.Data)
	case *agentv2.Frame_Window:
		why := s.onWindowLocked(&st.credit, body.Window)
		s.scheduleLocked(st)
		return why
	case *agentv2.Frame_Cancel:
		s.onCancelLocked(st, errCancelled)
		return nil
	case *agentv2.Frame_Error:
		s.onCancelLocked(st, errors.New("reset by the hub: "+cut(clean(body.Error.GetCode()), 64)))
		return nil
	case nil:
		return nil
	default:
		return protocolError("a frame on a request is none that a hub sends there")
	}
}

// onOpenLocked begins a request, or answers that it is not taken.
func (s *session) onOpenLocked(id, seq uint32, o *agentv2.Open) *ending {
	if id <= s.last {
		return protocolError("a stream's number was used again")
	}
	if seq != 1 {
		return protocolError("OPEN is not the first frame of its stream")
	}
	s.last = id
	kind, known := endpointOf(o.GetEndpoint())
	if end := s.refuseLocked(o, kind, known); end != nil {
		s.pushLocked(&agentv2.Frame{Stream: id, Seq: 1, Body: &agentv2.Frame_End{End: end}})
		return nil
	}
	timeout := time.Duration(min(o.GetTimeoutMs(), maxRequest.Milliseconds())) * time.Millisecond
	if timeout <= 0 {
		timeout = requestDefault
	}
	ctx, stop := context.WithTimeoutCause(s.ctx, timeout+hubFirst, errTimeout)
	s.streams[id] = &stream{
		session: s, id: id, ctx: ctx, stop: stop, reserve: int64(o.GetBodyLength()), room: make(chan struct{}, 1),
		bodyLength: int(o.GetBodyLength()), seqIn: 1, recv: agentwire.NewWindow(agentwire.StreamWindow),
		credit:  agentwire.StreamWindow,
		attempt: o.GetAttempt(), proof: o.GetProof(),
		// The content of other endpoints is not counted as it is sent.
		counted: s.receipts != nil && len(o.GetProof()) > 0 && kind == endpoint.Chat, count: counter{stream: o.GetStream()},
		request: Request{
			ID: o.GetRequestId(), ModelID: o.GetModelId(), Endpoint: kind, Stream: o.GetStream(),
			Body: make([]byte, 0, o.GetBodyLength()), ContentType: o.GetContentType(),
			ModelOffset: int(o.GetModelOffset()), ModelLength: int(o.GetModelLength()), Traceparent: o.GetTraceparent(),
		},
	}
	return nil
}

// refuseLocked says why a request is not taken. Where it returns nil, a slot and the
// body's memory are reserved.
func (s *session) refuseLocked(o *agentv2.Open, kind endpoint.Endpoint, known bool) *agentv2.End {
	length := int64(o.GetBodyLength())
	switch {
	case !known || !kind.Declared(s.cfg.Capabilities):
		return &agentv2.End{Error: "the agent does not serve this endpoint"}
	case !mediaType(o.GetContentType()):
		return &agentv2.End{Error: "the body's media type is malformed"}
	case !s.state.takes():
		return &agentv2.End{Busy: true, Error: "the agent is about to stop"}
	case len(s.streams) >= s.slots.streams()+spareStreams:
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
	case onPause:
		return &agentv2.End{Busy: true, Error: "the agent's owner has paused it"}
	case noMemory:
		return &agentv2.End{Busy: true, Error: "the agent's memory for request bodies is used up"}
	case granted:
	}
	return nil
}

// endpointOf returns false for an endpoint that only later hubs know.
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

// mediaType reports whether a media type is harmless in a header.
func mediaType(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= maxMediaType
}

// onDataLocked takes a piece of a request's body.
func (s *session) onDataLocked(st *stream, d *agentv2.Data) *ending {
	n := len(d.GetData())
	if !st.recv.Take(int64(n)) {
		return windowExceeded("more was sent than a stream's credit")
	}
	switch {
	case st.end != nil:
		return nil // the request is given up already, and END is on its way
	case st.started:
		return protocolError("DATA follows the end of a request's body")
	case len(st.request.Body)+n > st.bodyLength, d.GetFin() && len(st.request.Body)+n < st.bodyLength:
		return protocolError("a request's body is not of the length that OPEN named")
	}
	st.request.Body = append(st.request.Body, d.GetData()...)
	if d.GetFin() {
		s.startLocked(st)
		return nil
	}
	st.recv.Owe(int64(n))
	if due := st.recv.Grant(); due > 0 {
		// END is not queued yet, so the frame's number is the next one.
		s.pushLocked(frame.Window(st.id, st.seqOut.Next(), due))
	}
	return nil
}

// receivedLocked grants the connection's credit again, because the reservation of a body
// bounds it, and not the connection's credit.
func (s *session) receivedLocked(n int64) {
	s.recv.Owe(n)
	if due := s.recv.Grant(); due > 0 {
		s.pushLocked(frame.Window(0, 0, due))
	}
}

// onWindowLocked adds to a credit.
func (s *session) onWindowLocked(credit *agentwire.Credit, w *agentv2.Window) *ending {
	if !credit.Grant(w.GetBytes()) {
		return protocolError("more credit was granted than a window can hold")
	}
	s.signal()
	return nil
}

// onCancelLocked stops the engine. END follows when the engine has stopped.
func (s *session) onCancelLocked(st *stream, why error) {
	switch {
	case st.end != nil: // the engine is done, and the rest is not wanted
		st.dropLocked(why)
		st.end.Complete = false
		s.scheduleLocked(st)
	case !st.started:
		s.giveUpLocked(st, why)
	default:
		st.dropLocked(why)
	}
}
