package hubtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Session is one agent's connection.
type Session struct {
	// Register is the agent's first frame.
	Register *agentv2.Register

	t       testing.TB
	hub     *Hub
	ws      *websocket.Conn
	control chan *agentv2.Frame
	closed  chan struct{}

	sending sync.Mutex
	seqOut  agentwire.Sequence
	last    uint32

	mu      sync.Mutex
	seqIn   agentwire.Sequence
	streams map[uint32]*Stream
	held    bool             // credit is granted by the test
	recv    int64            // what the agent may send
	credit  agentwire.Credit // what may be sent to the agent
	drains  bool             // hub or agent have said so
	mute    bool             // pings are not answered
	pings   int
	pongs   int
	more    chan struct{} // closed and replaced when credit to send grows
}

func newSession(h *Hub, ws *websocket.Conn) *Session {
	return &Session{
		t: h.t, hub: h, ws: ws, control: make(chan *agentv2.Frame, backlog), closed: make(chan struct{}),
		streams: map[uint32]*Stream{}, recv: agentwire.ConnWindow, credit: agentwire.ConnWindow, more: make(chan struct{}),
	}
}

// read takes frames until the socket ends.
func (s *Session) read() {
	defer close(s.closed)
	defer func() { _ = s.ws.Close() }()
	s.ws.SetReadLimit(agentwire.MaxMessage)
	answer := s.ws.PingHandler()
	s.ws.SetPingHandler(func(data string) error {
		s.mu.Lock()
		s.pings++
		mute := s.mute
		s.mu.Unlock()
		if mute {
			return nil
		}
		return answer(data)
	})
	s.ws.SetPongHandler(func(string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pongs++
		return nil
	})
	for {
		kind, msg, err := s.ws.ReadMessage()
		if err != nil {
			return
		}
		f, err := frame.Read(msg)
		if err != nil || kind != websocket.BinaryMessage {
			s.t.Errorf("the agent sent what is not a Frame: %v", err)
			return
		}
		s.take(f)
	}
}

// take checks a frame and queues it for the test.
func (s *Session) take(f *agentv2.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.GetStream() == 0 {
		if !s.seqIn.Follows(f.GetSeq()) {
			s.t.Errorf("stream 0: got frame number %d, want %d", f.GetSeq(), s.seqIn)
		}
		if w := f.GetWindow(); w != nil {
			s.grantsLocked(&s.credit, w)
			return
		}
		s.drains = s.drains || f.GetDrain() != nil
		s.control <- f
		return
	}
	st := s.streams[f.GetStream()]
	if st == nil {
		s.t.Errorf("a frame on stream %d, which was not opened", f.GetStream())
		return
	}
	if !st.seqIn.Follows(f.GetSeq()) {
		s.t.Errorf("stream %d: got frame number %d, want %d", f.GetStream(), f.GetSeq(), st.seqIn)
	}
	if st.ended {
		s.t.Errorf("a frame on stream %d after its END", f.GetStream())
	}
	st.ended = f.GetEnd() != nil
	if w := f.GetWindow(); w != nil {
		s.grantsLocked(&st.credit, w)
		return
	}
	if f.GetData() != nil {
		s.accountLocked(st, len(f.GetData().GetData()))
	}
	st.frames <- f
}

// grantsLocked adds to the credit of the hub.
func (s *Session) grantsLocked(credit *agentwire.Credit, w *agentv2.Window) {
	if !credit.Grant(w.GetBytes()) {
		s.t.Errorf("the agent grants %d bytes, which are more credit than a window can hold", w.GetBytes())
	}
	s.wakeSendersLocked()
}

// accountLocked takes received bytes off the agent's credit.
func (s *Session) accountLocked(st *Stream, n int) {
	st.recv -= int64(n)
	s.recv -= int64(n)
	st.received += n
	if n == 0 || n > agentwire.MaxData || st.recv < 0 || s.recv < 0 {
		s.t.Errorf("DATA of %d bytes leaves credit of %d on stream %d and %d in all", n, st.recv, st.id, s.recv)
	}
}

// grantUnlessHeld grants credit again for bytes that a test has taken.
func (s *Session) grantUnlessHeld(st *Stream, n int) {
	s.mu.Lock()
	held, ended := s.held, st.ended
	s.mu.Unlock()
	if held || n == 0 {
		return
	}
	s.Grant(nil, n)
	if !ended {
		s.Grant(st, n)
	}
}

// HoldCredit leaves it to the test to grant credit.
func (s *Session) HoldCredit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// Grant gives the agent credit on a stream, or on the connection when st is nil.
func (s *Session) Grant(st *Stream, n int) {
	s.mu.Lock()
	id := uint32(0)
	if st != nil {
		id = st.id
		st.recv += int64(n)
	} else {
		s.recv += int64(n)
	}
	s.mu.Unlock()
	s.Send(frame.Window(id, 0, uint32(n)))
}

func (s *Session) wakeSendersLocked() {
	close(s.more)
	s.more = make(chan struct{})
}

// Drains reports whether the hub or the agent has said that no new requests are taken.
func (s *Session) Drains() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains
}

// IgnorePings leaves the agent's pings without an answer.
func (s *Session) IgnorePings() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = true
}

// Pings is how often the agent has pinged.
func (s *Session) Pings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pings
}

// Pongs is how often the agent has answered Ping.
func (s *Session) Pongs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pongs
}

// Foresee accepts frames of a stream that SendAsIs opens.
func (s *Session) Foresee(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != 0 && s.streams[id] == nil {
		s.streams[id] = &Stream{s: s, id: id, frames: make(chan *agentv2.Frame, 16), recv: agentwire.StreamWindow,
			credit: agentwire.StreamWindow}
	}
}

// Ack accepts the registration, with heartbeats each 10 s.
func (s *Session) Ack() {
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{
		ProviderId: "0190a000-0000-7000-8000-0000000000aa", ProviderName: "tester", Epoch: 1, Status: "active",
		HeartbeatIntervalMs: 10_000,
	}}})
}

// Send numbers a frame and sends it. A closed connection is no error here, because tests
// notice it elsewhere.
func (s *Session) Send(f *agentv2.Frame) {
	s.t.Helper()
	switch {
	case f.GetRegisterAck() != nil && s.Register != nil:
		s.hub.replace(s)
	case f.GetDrain() != nil:
		s.mu.Lock()
		s.drains = true
		s.mu.Unlock()
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	if f.GetStream() == 0 {
		f.Seq = s.seqOut.Next()
	} else {
		s.mu.Lock()
		if st := s.streams[f.GetStream()]; st != nil {
			f.Seq = st.seqOut.Next()
		}
		s.mu.Unlock()
	}
	s.write(websocket.BinaryMessage, mustMarshal(s.t, f))
}

// SendAsIs sends a frame with the number it has.
func (s *Session) SendAsIs(f *agentv2.Frame) {
	s.t.Helper()
	s.SendRaw(websocket.BinaryMessage, mustMarshal(s.t, f))
}

// SendRaw sends any message.
func (s *Session) SendRaw(kind int, msg []byte) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.write(kind, msg)
}

func (s *Session) write(kind int, msg []byte) {
	_ = s.ws.SetWriteDeadline(time.Now().Add(patience))
	_ = s.ws.WriteMessage(kind, msg)
}

// Ping sends a ping.
func (s *Session) Ping() {
	_ = s.ws.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(patience))
}

func mustMarshal(t testing.TB, f *agentv2.Frame) []byte {
	t.Helper()
	msg, err := frame.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// Control waits for the next frame of stream 0, WINDOW left out.
func (s *Session) Control() *agentv2.Frame {
	s.t.Helper()
	return s.next(s.control)
}

// Frames are the frames of stream 0 that Control has not returned yet.
func (s *Session) Frames() <-chan *agentv2.Frame { return s.control }

// ControlOf waits for the next wanted frame of stream 0, and skips others.
func (s *Session) ControlOf(want func(*agentv2.Frame) bool) *agentv2.Frame {
	s.t.Helper()
	for {
		if f := s.Control(); want(f) {
			return f
		}
	}
}

// next waits for a frame. Frames that came before the end are returned first.
func (s *Session) next(from chan *agentv2.Frame) *agentv2.Frame {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case f := <-from:
		return f
	default:
	}
	select {
	case f := <-from:
		return f
	case <-s.closed:
		select {
		case f := <-from:
			return f
		default:
			s.t.Fatal("the connection ended where a frame was awaited")
		}
	case <-ctx.Done():
		s.t.Fatal("no frame has come")
	}
	return nil
}

// Closed is closed when the connection is.
func (s *Session) Closed() <-chan struct{} { return s.closed }

// WaitClosed waits for the agent to close the connection.
func (s *Session) WaitClosed() {
	s.t.Helper()
	select {
	case <-s.closed:
	case <-time.After(patience):
		s.t.Fatal("the connection is still open")
	}
}

// Kill ends the connection without a word, as a crash does.
func (s *Session) Kill() { _ = s.ws.NetConn().Close() }

// Refuse sends Error on the connection.
func (s *Session) Refuse(code string, after time.Duration) {
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{
		Code: code, Message: "scripted", ReconnectAfterMs: after.Milliseconds(),
	}}})
}
