package hubtest

import (
	"bytes"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Stream is one request to the agent.
type Stream struct {
	s      *Session
	id     uint32
	frames chan *agentv2.Frame

	// Guarded by the session's mutex.
	seqIn, seqOut agentwire.Sequence
	ended         bool
	recv          int64            // what the agent may send
	credit        agentwire.Credit // what may be sent to the agent
	received      int
}

// OpenOf describes a body whose first member is the model: {"model":"…".
func OpenOf(model string, body []byte) *agentv2.Open {
	const head = `{"model":`
	open := &agentv2.Open{
		RequestId: "0190a000-0000-7000-8000-000000000001", Attempt: 1, ModelId: model,
		BodyLength: uint32(len(body)), TimeoutMs: 60_000,
	}
	if bytes.HasPrefix(body, []byte(head)) {
		rest := body[len(head):]
		open.ModelOffset = uint32(len(head))
		open.ModelLength = uint32(bytes.IndexByte(rest[1:], '"') + 2)
	}
	open.Stream = bytes.Contains(body, []byte(`"stream":true`))
	return open
}

// Open sends a whole request. The body must begin with {"model":"…".
func (s *Session) Open(model, body string) *Stream {
	s.t.Helper()
	st := s.OpenOnly(OpenOf(model, []byte(body)))
	st.SendBody([]byte(body))
	return st
}

// OpenOnly sends OPEN without a body.
func (s *Session) OpenOnly(open *agentv2.Open) *Stream {
	s.t.Helper()
	s.mu.Lock()
	s.last++
	st := &Stream{s: s, id: s.last, frames: make(chan *agentv2.Frame, backlog), recv: agentwire.StreamWindow,
		credit: agentwire.StreamWindow}
	s.streams[st.id] = st
	s.mu.Unlock()
	st.Send(&agentv2.Frame{Body: &agentv2.Frame_Open{Open: open}})
	return st
}

// Send sends a frame on the stream.
func (st *Stream) Send(f *agentv2.Frame) {
	st.s.t.Helper()
	f.Stream = st.id
	st.s.Send(f)
}

// ID is the stream's number.
func (st *Stream) ID() uint32 { return st.id }

// SendBody sends a body as credit allows, the last piece with fin.
func (st *Stream) SendBody(body []byte) {
	st.s.t.Helper()
	for {
		n := st.reserve(len(body))
		if n < 0 {
			return
		}
		fin := n == len(body)
		st.Send(&agentv2.Frame{Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: body[:n], Fin: fin}}})
		body = body[n:]
		if fin {
			return
		}
	}
}

// reserve waits for credit of up to want bytes and at most one DATA. It returns a
// negative number when the connection has ended or no credit comes.
func (st *Stream) reserve(want int) int {
	s := st.s
	for {
		s.mu.Lock()
		n := agentwire.Spend(want, &st.credit, &s.credit)
		more := s.more
		s.mu.Unlock()
		if n > 0 || want == 0 {
			return n
		}
		select {
		case <-more:
		case <-s.closed:
			return -1
		case <-time.After(patience):
			s.t.Error("the agent grants no credit")
			return -1
		}
	}
}

// Cancel sends CANCEL.
func (st *Stream) Cancel() {
	st.Send(&agentv2.Frame{Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}})
}

// Next waits for the stream's next frame, WINDOW left out, and grants its credit.
func (st *Stream) Next() *agentv2.Frame {
	st.s.t.Helper()
	f := st.s.next(st.frames)
	if d := f.GetData(); d != nil {
		st.s.grantUnlessHeld(st, len(d.GetData()))
	}
	return f
}

// Answer takes DATA until END.
func (st *Stream) Answer() ([]byte, *agentv2.End) {
	st.s.t.Helper()
	var body []byte
	for {
		f := st.Next()
		if end := f.GetEnd(); end != nil {
			return body, end
		}
		body = append(body, f.GetData().GetData()...)
	}
}

// Received is how many bytes of DATA have come.
func (st *Stream) Received() int {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.received
}

// Ended reports whether END has come.
func (st *Stream) Ended() bool {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.ended
}
