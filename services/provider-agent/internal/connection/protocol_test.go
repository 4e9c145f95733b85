package connection

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func dataFrame(stream, seq uint32, n int, fin bool) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq,
		Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: make([]byte, n), Fin: fin}}}
}

func openFrame(stream, seq uint32, length int) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq,
		Body: &agentv2.Frame_Open{Open: hubtest.OpenOf("m", []byte(body(length)))}}
}

func TestHubThatBreaksTheProtocolIsToldAndLeft(t *testing.T) {
	whole := len(body(100))
	for name, c := range map[string]struct {
		code   string
		frames []*agentv2.Frame
		raw    []byte
		kind   int
	}{
		"gap on stream 0": {code: agentwire.CodeProtocolError,
			frames: []*agentv2.Frame{{Seq: 3, Body: &agentv2.Frame_HeartbeatAck{}}}},
		"repeat on stream 0": {code: agentwire.CodeProtocolError,
			frames: []*agentv2.Frame{{Seq: 1, Body: &agentv2.Frame_HeartbeatAck{}}}},
		"second acknowledgement": {code: agentwire.CodeProtocolError,
			frames: []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{}}}}},
		"REGISTER from a hub": {code: agentwire.CodeProtocolError,
			frames: []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_Register{Register: &agentv2.Register{}}}}},
		"DATA on stream 0": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{dataFrame(0, 2, 1, false)}},
		"DATA before OPEN": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{dataFrame(9, 1, 1, false)}},
		"CANCEL before OPEN": {code: agentwire.CodeProtocolError,
			frames: []*agentv2.Frame{{Stream: 9, Seq: 1, Body: &agentv2.Frame_Cancel{}}}},
		"OPEN that is not first": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 2, 100)}},
		"a number used again": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100),
			openFrame(1, 2, 100)}},
		"a lower number": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(5, 1, 100),
			openFrame(4, 1, 100)}},
		"gap in a request": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100),
			dataFrame(1, 3, 1, false)}},
		"END from a hub": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100),
			{Stream: 1, Seq: 2, Body: &agentv2.Frame_End{}}}},
		"a body too long": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100),
			dataFrame(1, 2, whole+1, true)}},
		"a body too short": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100),
			dataFrame(1, 2, whole-1, true)}},
		"DATA behind fin": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100),
			dataFrame(1, 2, whole, true), dataFrame(1, 3, 0, true)}},
		"DATA above 16 KiB": {code: agentwire.CodeProtocolError, frames: []*agentv2.Frame{openFrame(1, 1, 100_000),
			dataFrame(1, 2, agentwire.MaxData+1, false)}},
		"credit without end": {code: agentwire.CodeProtocolError,
			frames: []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1 << 31}}}}},
		"not a frame":    {code: agentwire.CodeProtocolError, raw: []byte{0xff, 0xff}, kind: websocket.BinaryMessage},
		"a text message": {code: agentwire.CodeProtocolError, raw: []byte("{}"), kind: websocket.TextMessage},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, blocked, options{random: constant(0)})
			s := b.hub.AcceptLive()
			s.ControlOf(isHeartbeat)
			for _, f := range c.frames {
				s.Foresee(f.GetStream())
				s.SendAsIs(f)
			}
			if c.raw != nil {
				s.SendRaw(c.kind, c.raw)
			}
			if e := s.ControlOf(isError).GetError(); e.GetCode() != c.code {
				t.Errorf("the hub is told: e.GetCode(): got %q, want %q", e.GetCode(), c.code)
			} else if e.GetMessage() == "" {
				t.Error(`the hub is told: e.GetMessage(): got "", want some text`)
			}
			s.WaitClosed()
			st := b.hub.AcceptLive().OpenOnly(hubtest.OpenOf("m", []byte(body(1))))
			st.Cancel()
			if _, end := st.Answer(); end == nil {
				t.Error("the next session does not work")
			}
		})
	}
}

// blocked serves until the request is given up.
func blocked(ctx context.Context, _ Request, _ io.Writer) Answer {
	<-ctx.Done()
	return Answer{Err: ctx.Err()}
}

func TestRequestBeforeTheAcknowledgementIsAFault(t *testing.T) {
	b := setup(t, echo, options{})
	s := b.hub.Accept()
	s.Foresee(1)
	s.SendAsIs(openFrame(1, 1, 10))
	if e := s.ControlOf(isError).GetError(); e.GetCode() != agentwire.CodeProtocolError {
		t.Errorf("the hub is told: got %q, want %q", e.GetCode(), agentwire.CodeProtocolError)
	}
}

func TestHubThatExceedsItsCreditIsToldAndLeft(t *testing.T) {
	s, _ := newTestSession(t, Config{MaxRequestBytes: 10 << 20}, blocked)
	handle := func(f *agentv2.Frame) *ending { return s.handle(mustMarshal(t, f)) }
	if why := handle(openFrame(1, 1, 2<<20)); why != nil {
		t.Fatalf("why: got %+v, want nil", why)
	}
	// The agent grants at every quarter of the window; a grant that it holds
	// back is what a hub may run into, so take the credit away here.
	s.mu.Lock()
	s.streams[1].recv.Take(agentwire.StreamWindow - agentwire.MaxData)
	s.mu.Unlock()
	if why := handle(dataFrame(1, 2, agentwire.MaxData, false)); why != nil {
		t.Fatalf("why: got %+v, want nil", why)
	}
	if why := handle(dataFrame(1, 3, 1, false)); why == nil {
		t.Error("beyond the stream's credit: why: got nil, want a value")
	} else if why.code != agentwire.CodeWindowExceeded {
		t.Errorf("beyond the stream's credit: why.code: got %q, want %q", why.code, agentwire.CodeWindowExceeded)
	}
	s, _ = newTestSession(t, Config{MaxRequestBytes: 10 << 20}, blocked)
	handle = func(f *agentv2.Frame) *ending { return s.handle(mustMarshal(t, f)) }
	handle(openFrame(1, 1, 2<<20))
	s.mu.Lock()
	s.recv.Take(agentwire.ConnWindow - 10)
	s.mu.Unlock()
	if why := handle(dataFrame(1, 2, 11, false)); why == nil {
		t.Error("beyond the connection's credit: why: got nil, want a value")
	} else if why.code != agentwire.CodeWindowExceeded {
		t.Errorf("beyond the connection's credit: why.code: got %q, want %q", why.code, agentwire.CodeWindowExceeded)
	}
}

func TestUnknownFramesAreTolerated(t *testing.T) {
	b := setup(t, echo, options{})
	s := b.hub.AcceptLive()
	s.Send(&agentv2.Frame{})
	st := s.OpenOnly(hubtest.OpenOf("m", []byte(body(3))))
	st.Send(&agentv2.Frame{})
	st.SendBody([]byte(body(3)))
	if got, end := st.Answer(); string(got) != body(3) {
		t.Errorf("got %q, want %q", string(got), body(3))
	} else if !end.GetComplete() {
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	}
}

func TestFloodOfRequestsThatAreNotReadEndsTheConnection(t *testing.T) {
	s, _ := newTestSession(t, Config{MaxRequestBytes: 10 << 20}, blocked)
	for i := range uint32(agentwire.MaxWaiting + 1) {
		open := openFrame(i+1, 1, 10)
		open.GetOpen().ModelId = "unknown"
		if why := s.handle(mustMarshal(t, open)); why != nil {
			t.Fatalf("why: got %+v, want nil", why)
		}
	}
	switch {
	case s.why == nil:
		t.Errorf("%d answers wait, the session's end is %v: s.why: got nil, want a value", len(s.control), s.why)
	case s.why.code != agentwire.CodeProtocolError:
		t.Errorf("%d answers wait, the session's end is %v: s.why.code: got %q, want %q", len(s.control), s.why, s.why.code,
			agentwire.CodeProtocolError)
	case len(s.control) > agentwire.MaxWaiting:
		t.Errorf("%d answers wait, the session's end is %v: len(s.control): got %d, want at most %d", len(s.control), s.why,
			len(s.control), agentwire.MaxWaiting)
	}
}

func mustMarshal(t testing.TB, f *agentv2.Frame) []byte {
	t.Helper()
	msg, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// newTestSession makes a registered session without a socket.
func newTestSession(t testing.TB, cfg Config, serve Serve) (*session, *slots) {
	t.Helper()
	s := newTestSessionUnregistered(t, cfg, serve)
	ack := &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{}}}
	if why := s.handle(mustMarshal(t, ack)); why != nil {
		t.Fatalf("why: got %+v, want nil", why)
	}
	return s, s.slots
}

// newTestSessionUnregistered makes a session without a socket.
func newTestSessionUnregistered(t testing.TB, cfg Config, serve Serve) *session {
	t.Helper()
	slots := newSlots([]Offer{{ModelID: "m", Capacity: 4}}, 1<<20*16)
	warmer := newWarmer(func(context.Context, string) error { return nil }, clock.System)
	s := newSession(cfg, sessionDeps{serve: serve, slots: slots, warmer: warmer, clock: clock.System})
	t.Cleanup(func() {
		s.fail(&ending{})
		s.work.Wait()
	})
	return s
}

func FuzzHandle(f *testing.F) {
	pack := func(frames ...*agentv2.Frame) []byte {
		var all []byte
		for _, frame := range frames {
			msg := mustMarshal(f, frame)
			all = binary.BigEndian.AppendUint16(all, uint16(len(msg)))
			all = append(all, msg...)
		}
		return all
	}
	text := body(3)
	f.Add(pack(openFrame(1, 1, 3), &agentv2.Frame{Stream: 1, Seq: 2,
		Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: []byte(text), Fin: true}}}))
	f.Add(pack(openFrame(1, 1, 3), &agentv2.Frame{Stream: 1, Seq: 2,
		Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}}, dataFrame(1, 3, 5, false)))
	f.Add(pack(openFrame(1, 1, 300), dataFrame(1, 2, 100, false), openFrame(3, 1, 3),
		&agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{ReconnectAfterMs: 1 << 62}}}))
	f.Add(pack(&agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1 << 31}}}))
	f.Add(pack(&agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "superseded",
		ReconnectAfterMs: -1}}}))
	f.Add(pack(&agentv2.Frame{Seq: 2}, &agentv2.Frame{Seq: 3, Body: &agentv2.Frame_Open{}},
		&agentv2.Frame{Seq: 3, Body: &agentv2.Frame_Data{}}))
	f.Add(pack(&agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: "m"}}},
		&agentv2.Frame{Seq: 3, Body: &agentv2.Frame_Warmup{}}))
	f.Fuzz(func(t *testing.T, input []byte) {
		s, slots := newTestSession(t, Config{MaxRequestBytes: 1 << 20, MaxBufferedBytes: 16 << 20}, echo)
		var b batch
		for len(input) >= 2 {
			n := min(int(binary.BigEndian.Uint16(input)), len(input)-2)
			why := s.handle(input[2 : 2+n])
			input = input[2+n:]
			if err := s.next(&b); err != nil {
				t.Fatal(err)
			}
			start := 0
			for _, end := range b.ends {
				if err := proto.Unmarshal(b.bytes[start:end], &agentv2.Frame{}); err != nil {
					t.Fatalf("got the error %v, want none", err)
				} else if end-start > agentwire.MaxMessage {
					t.Fatalf("a frame: got %d, want at most %d", end-start, agentwire.MaxMessage)
				}
				start = end
			}
			if why != nil {
				if strings.ContainsAny(why.reason(), "\n\x00") {
					t.Fatal("the ending: strings.ContainsAny(…): got true, want false")
				}
				if why.after < 0 || why.after > maxHubPause {
					t.Fatalf("the ending: why.after: got %v, want 0 to %v", why.after, maxHubPause)
				}
				s.fail(why)
			}
			s.mu.Lock()
			if len(s.streams) > 4+spareStreams || len(s.control) > agentwire.MaxWaiting || s.credit < 0 {
				t.Fatalf("%d streams, %d control frames, credit %d", len(s.streams), len(s.control), s.credit)
			}
			s.mu.Unlock()
		}
		s.fail(&ending{text: "over"})
		s.work.Wait()
		if n := slots.active(); n != 0 {
			t.Fatalf("%d slots are taken behind the end, %d bytes free: slots.active(): got %d, want 0", n, slots.bytes, n)
		} else if slots.bytes != 16<<20 {
			t.Fatalf("%d slots are taken behind the end, %d bytes free: slots.bytes: got %d, want 16<<20", n, slots.bytes,
				slots.bytes)
		}
	})
}

func TestSlotsComeBackWhoeverEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, blocked, options{piped: true})
		for range 3 {
			s := b.hub.AcceptLive()
			for range 3 {
				s.Open("m", body(1))
			}
			s.OpenOnly(hubtest.OpenOf("m", []byte(body(1))))
			synctest.Wait()
			if n := b.link.slots.active(); n != 4 {
				t.Errorf("slots taken: got %d, want 4", n)
			}
			s.Kill()
			synctest.Wait()
			if n := b.link.slots.active(); n != 0 {
				t.Errorf("slots taken behind the end: got %d, want 0", n)
			}
		}
	})
}

func TestMessageAboveTheBoundEndsTheConnection(t *testing.T) {
	b := setup(t, echo, options{random: constant(0)})
	s := b.hub.AcceptLive()
	s.SendRaw(websocket.BinaryMessage, make([]byte, agentwire.MaxMessage+1))
	s.WaitClosed()
	if got, end := b.hub.AcceptLive().Open("m", body(1)).Answer(); string(got) != body(1) {
		t.Errorf("the next session: got %q, want %q", string(got), body(1))
	} else if !end.GetComplete() {
		t.Errorf("the next session: end.GetComplete(): got false, want true, with %v", end)
	}
}
