package session

import (
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/meter"
)

// push queues a control frame. Needs the mutex.
func (d *v2) push(f *agentv2.Frame) {
	if d.s.phase >= phaseClosing || d.s.full(len(d.control)) {
		return
	}
	d.control = append(d.control, f)
	d.s.signal()
}

// clear implements dialect.
func (d *v2) clear() { d.control, d.interactive, d.bulk = nil, nil, nil }

// fill implements dialect: control first, then new requests, then one piece of
// each body in turn, until a batch is full or credit is used up.
func (d *v2) fill(o *outbox) {
	room := batchBytes
	for _, f := range d.control {
		if f.GetStream() != 0 && d.s.streams[f.GetStream()] == nil {
			continue // the stream has ended meanwhile
		}
		o.frames = append(o.frames, d.number(f))
		room -= frameOverhead
	}
	d.control = clearFrames(d.control)
	room = d.takeRequests(o, room)
	room = d.takeBodies(o, room)
	o.more = room <= 0
}

// farewell implements dialect.
func (d *v2) farewell(o *outbox, why *Closing) {
	o.hold, o.status = why.Hold, why.status
	if !why.bare {
		o.frames = append(o.frames, d.number(errorFrame(why)))
	}
	if o.status == 0 {
		o.status = statusNormal
	}
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
func (d *v2) number(f *agentv2.Frame) v2Frame {
	if f.GetStream() == 0 {
		d.seqOut++
		f.Seq = d.seqOut
		return v2Frame{f}
	}
	flow := d.at(d.s.streams[f.GetStream()])
	flow.seqOut++
	f.Seq = flow.seqOut
	return v2Frame{f}
}

// takeRequests sends OPEN of each new request, and its body too when that is
// small. Needs the mutex.
func (d *v2) takeRequests(o *outbox, room int) int {
	n := 0
	for ; n < len(d.interactive) && room > 0; n++ {
		st := d.interactive[n]
		if d.s.streams[st.id] != &st.Stream {
			continue // given up before the agent heard of it
		}
		st.opened = true
		d.earn(earnedByOpen)
		o.frames = append(o.frames, d.number(openFrame(&st.Stream)))
		room -= frameOverhead + len(st.request.Model) + len(st.request.RequestID)
		if len(st.request.Body) <= maxData {
			room -= d.takePiece(o, st)
		}
		d.schedule(st)
	}
	d.interactive = shift(d.interactive, n)
	return room
}

// takeBodies sends one piece of each body in turn. Needs the mutex.
func (d *v2) takeBodies(o *outbox, room int) int {
	for len(d.bulk) > 0 && room > 0 && d.sendCredit > 0 {
		st := d.bulk[0]
		d.bulk = shift(d.bulk, 1)
		st.queued = false
		room -= d.takePiece(o, st)
		d.schedule(st)
	}
	return room
}

// schedule puts a stream into the ring if it has something to send and credit
// for it. Needs the mutex.
func (d *v2) schedule(st *v2Stream) {
	if st.queued || st.finished || !st.opened || st.credit <= 0 || d.s.streams[st.id] != &st.Stream {
		return
	}
	st.queued = true
	d.bulk = append(d.bulk, st)
}

// takePiece sends the next piece of a body as far as credit goes, and returns
// its size. Needs the mutex.
func (d *v2) takePiece(o *outbox, st *v2Stream) int {
	if st.finished || d.s.streams[st.id] != &st.Stream {
		return 0
	}
	rest := st.request.Body[st.sent:]
	n := int(min(int64(len(rest)), maxData, st.credit, d.sendCredit))
	if n == 0 && len(rest) > 0 {
		return 0
	}
	st.sent += n
	st.credit -= int64(n)
	d.sendCredit -= int64(n)
	d.sends(n)
	fin := st.sent == len(st.request.Body)
	o.frames = append(o.frames, d.number(&agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Data{
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
func shift[T any](queue []*T, n int) []*T {
	clear(queue[:n])
	if n == len(queue) {
		return nil
	}
	return queue[n:]
}
