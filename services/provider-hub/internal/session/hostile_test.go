package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

func TestHostile36_FramesThatDoNotBelongEndTheConnection(t *testing.T) {
	for name, script := range map[string]func(s *Session, st *Stream) []*agentv2.Frame{
		"DATA on a stream never opened": func(*Session, *Stream) []*agentv2.Frame { return []*agentv2.Frame{data(99, 1, 1)} },
		"END on a stream never opened":  func(*Session, *Stream) []*agentv2.Frame { return []*agentv2.Frame{end(99, 1)} },
		"DATA behind END": func(_ *Session, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{end(st.id, 1), data(st.id, 2, 1)}
		},
		"END twice": func(_ *Session, st *Stream) []*agentv2.Frame { return []*agentv2.Frame{end(st.id, 1), end(st.id, 2)} },
		"a gap": func(_ *Session, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{data(st.id, 1, 1), data(st.id, 3, 1)}
		},
		"a repeat": func(_ *Session, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{data(st.id, 1, 1), data(st.id, 1, 1)}
		},
		"no number": func(_ *Session, st *Stream) []*agentv2.Frame { return []*agentv2.Frame{data(st.id, 0, 1)} },
		"a gap on stream 0": func(*Session, *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Seq: 5, Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}}}
		},
		"REGISTER twice": func(*Session, *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_Register{Register: &agentv2.Register{NodeId: "node-0001"}}}}
		},
		"a hub's frame on stream 0": func(*Session, *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{}}}}
		},
		"a hub's frame on a request": func(_ *Session, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Stream: st.id, Seq: 1, Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}}}
		},
		"DATA on stream 0": func(*Session, *Stream) []*agentv2.Frame { return []*agentv2.Frame{data(0, 2, 1)} },
		"DATA above 16 KiB": func(_ *Session, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{data(st.id, 1, maxData+1)}
		},
		"a window beyond all bounds": func(_ *Session, st *Stream) []*agentv2.Frame {
			w := &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1 << 31}}
			return []*agentv2.Frame{{Stream: st.id, Seq: 1, Body: w}}
		},
		"END before OPEN was sent": func(s *Session, _ *Stream) []*agentv2.Frame {
			st, err := s.Open(Request{Model: "m"})
			if err != nil {
				panic(err)
			}
			return []*agentv2.Frame{end(st.id, 1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := live(t, Config{}, "m")
			st := openStream(t, s, 1)
			sent(s)
			frames := script(s, st)
			for i, f := range frames {
				why := s.wire.receive(encode(t, f))
				if last := i == len(frames)-1; last != (why != nil) || last && why.Code != CodeProtocolError {
					t.Fatalf("frame %d: %v", i, why)
				}
			}
		})
	}
}

func TestUnknownFieldsAndFramesAreTolerated(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 1)
	sent(s)
	unknown := []byte{0xfa, 0x06, 3, 1, 2, 3} // field 111
	for _, f := range []*agentv2.Frame{data(st.id, 1, 3), {Stream: st.id, Seq: 2}, {Seq: 2}, end(st.id, 3)} {
		if why := s.wire.receive(append(encode(t, f), unknown...)); why != nil {
			t.Fatalf("%v: %v", f, why)
		}
	}
	if piece, e, _ := st.Take(); len(piece) != 3 || e == nil {
		t.Errorf("took %d bytes, end %v", len(piece), e)
	}
}

func TestHostile39_WindowViolationResetsTheStreamAndThenTheConnection(t *testing.T) {
	s := live(t, Config{}, "m")
	first, second := openStream(t, s, 1), openStream(t, s, 1)
	sent(s)
	flood := func(st *Stream) (why *Closing) {
		for seq := range uint32(17) {
			if why = s.wire.receive(encode(t, data(st.id, seq+1, maxData))); why != nil {
				return why
			}
		}
		return nil
	}
	if why := flood(first); why != nil {
		t.Fatal(why)
	}
	f := sent(s)
	if len(f) != 1 || f[0].GetStream() != first.id || f[0].GetError().GetCode() != CodeWindowExceeded {
		t.Errorf("sent %v", f)
	}
	if _, _, err := first.Take(); !errors.Is(err, ErrReset) {
		t.Errorf("take: %v", err)
	}
	if why := s.wire.receive(encode(t, data(first.id, 18, maxData))); why != nil {
		t.Errorf("what was under way behind the reset: %v", why)
	}
	if why := flood(second); why == nil || why.Code != CodeWindowExceeded {
		t.Errorf("a second violation: %v", why)
	}
}

func TestConnectionWindowBoundsAllStreamsTogether(t *testing.T) {
	s := live(t, Config{ConnWindow: 512 << 10}, "m")
	var why *Closing
	total := 0
	for range 4 {
		st := openStream(t, s, 1)
		sent(s)
		for seq := uint32(1); seq <= 16 && why == nil; seq++ {
			why = s.wire.receive(encode(t, data(st.id, seq, maxData)))
			total += maxData
		}
	}
	if why == nil || why.Code != CodeWindowExceeded || total != 512<<10+maxData {
		t.Errorf("after %d bytes: %v", total, why)
	}
}

func TestHostile43_FloodsOfHeartbeatsPingsAndEmptyFramesEndTheConnection(t *testing.T) {
	for name, send := range map[string]func(s *Session, st *Stream, n uint32) *Closing{
		"heartbeats with changing models": func(s *Session, _ *Stream, n uint32) *Closing {
			h := &agentv2.Heartbeat{Models: []*agentv2.ModelOffer{{ModelId: "m", Healthy: n%2 == 0}}}
			return s.wire.receive(encode(t, &agentv2.Frame{Seq: n + 1, Body: &agentv2.Frame_Heartbeat{Heartbeat: h}}))
		},
		"pings":        func(s *Session, _ *Stream, _ uint32) *Closing { return s.onPing([]byte("x")) },
		"pongs":        func(s *Session, _ *Stream, _ uint32) *Closing { return s.onPong() },
		"empty frames": func(s *Session, st *Stream, n uint32) *Closing { return s.wire.receive(encode(t, data(st.id, n, 0))) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := live(t, Config{}, "m")
			st := openStream(t, s, 1)
			sent(s)
			n := uint32(1)
			for ; n <= 200; n++ {
				if why := send(s, st, n); why != nil {
					break
				}
			}
			if n != chatterBurst+1 {
				t.Errorf("%s: ended at number %d", name, n)
			}
			if waiting := len(sent(s)); waiting > chatterBurst+1 {
				t.Errorf("%s: %d answers", name, waiting)
			}
		})
	}
}

func TestAnswersThatAreNotReadAreBounded(t *testing.T) {
	s := live(t, Config{}, "m")
	d := s.wire.(*v2)
	s.mu.Lock()
	for range maxControl + 10 {
		d.push(window(0, 1))
	}
	n, p := len(d.control), s.phase
	s.mu.Unlock()
	if n > maxControl || p != phaseClosing {
		t.Errorf("%d frames wait in phase %d", n, p)
	}
}

// raw sends a frame header of one's own making over a fresh connection and
// reports whether the hub closed it.
func raw(t *testing.T, after []byte, repeat int) (closed bool) {
	t.Helper()
	e := serveSessions(t, Config{})
	a := e.mustDial(t, fakeagent.Options{})
	defer a.Close()
	for range repeat {
		if _, err := a.NetConn().Write(after); err != nil {
			break
		}
	}
	select {
	case <-a.Closed():
		return true
	case <-time.After(time.Minute):
		return false
	}
}

func TestHostile38_BrokenWebSocketsAreClosedWithBoundedMemory(t *testing.T) {
	gib := binary.BigEndian.AppendUint64([]byte{0x82, 0x80 | 127}, 1<<30)
	for name, c := range map[string]struct {
		bytes  []byte
		repeat int
	}{
		"a message of 1 GiB":            {append(gib, 0, 0, 0, 0), 1},
		"a length of 2^63":              {append(binary.BigEndian.AppendUint64([]byte{0x82, 0x80 | 127}, 1<<63), 0, 0, 0, 0), 1},
		"an unmasked frame":             {[]byte{0x82, 1, 0}, 1},
		"a compressed frame":            {[]byte{0xc2, 0x81, 0, 0, 0, 0, 0}, 1},
		"a reserved opcode":             {[]byte{0x83, 0x80, 0, 0, 0, 0}, 1},
		"a fragment of nothing":         {[]byte{0x80, 0x80, 0, 0, 0, 0}, 1},
		"fragments of a byte for ever":  {append([]byte{0x02, 0x81, 0, 0, 0, 0, 1}, bytes.Repeat([]byte{0x00, 0x81, 0, 0, 0, 0, 1}, 100)...), 1000},
		"a flood of pings":              {bytes.Repeat([]byte{0x89, 0x80, 0, 0, 0, 0}, 50), 1000},
		"a ping of 126 bytes":           {append([]byte{0x89, 0x80 | 126, 0, 126, 0, 0, 0, 0}, make([]byte, 126)...), 1},
		"a text message":                {[]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}, 1},
		"garbage that is no frame":      {[]byte{0x82, 0x81, 0, 0, 0, 0, 0xff}, 1},
		"a message of 64 KiB and a bit": {append([]byte{0x82, 0x80 | 127, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}, make([]byte, 65537)...), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if !raw(t, c.bytes, c.repeat) {
					t.Error("the connection stays open")
				}
			})
		})
	}
}

func TestOnlyTheTwoDialectsAreUpgraded(t *testing.T) {
	e := serveSessions(t, Config{})
	upgrade := func(path, protocol string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if protocol != "-" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-WebSocket-Protocol", protocol)
		}
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		path, protocol string
		want           int
	}{
		{"/ws", "-", 400}, {"/ws", "other", 400}, {"/", "svc.agent.v1", 400}, {"/prefix/ws", "svc.agent.v3", 400},
		{"/other", Subprotocol, 404}, {"/wsx", Subprotocol, 404},
	} {
		w := upgrade(c.path, c.protocol)
		if w.Code != c.want || c.want == 400 && !strings.Contains(w.Body.String(), Subprotocol) ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s %q: %d %s", c.path, c.protocol, w.Code, w.Body)
		}
	}
}

func TestPlainDataIsReadAsTheFullDecoderReadsIt(t *testing.T) {
	f := data(7, 9, 100)
	got, ok := parseData(encode(t, f))
	if !ok || got.stream != 7 || got.seq != 9 || !bytes.Equal(got.bytes, f.GetData().GetData()) {
		t.Errorf("read %v, %v", got, ok)
	}
}

func FuzzParseDataAgreesWithTheFullDecoder(f *testing.F) {
	f.Add(encode(f, data(7, 9, 100)))
	f.Add(encode(f, data(1<<31, 1<<31, 0)))
	f.Add(encode(f, end(1, 2)))
	f.Add([]byte{8, 1, 16, 1, 66, 2, 8, 1})
	f.Add([]byte{66, 0, 66, 0})
	f.Fuzz(func(t *testing.T, msg []byte) {
		got, ok := parseData(msg)
		if !ok {
			return
		}
		var want agentv2.Frame
		if err := proto.Unmarshal(msg, &want); err != nil {
			t.Fatalf("read %v from what the full decoder refuses: %v", got, err)
		}
		if want.GetData() == nil || got.stream != want.GetStream() || got.seq != want.GetSeq() || !bytes.Equal(got.bytes, want.GetData().GetData()) {
			t.Fatalf("read %v, the full decoder %v", got, &want)
		}
	})
}

// FuzzFrames drives the state machine with messages of any content: it never
// panics, and its accounts stay within their bounds.
func FuzzFrames(f *testing.F) {
	join := func(frames ...*agentv2.Frame) []byte {
		var all []byte
		for _, frame := range frames {
			b := encode(f, frame)
			all = append(binary.BigEndian.AppendUint16(all, uint16(len(b))), b...)
		}
		return all
	}
	f.Add(join(data(1, 1, 10), end(1, 2)))
	f.Add(join(data(2, 1, 0), &agentv2.Frame{Stream: 2, Seq: 2, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 9}}}))
	f.Add(join(&agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{Models: []*agentv2.ModelOffer{{ModelId: "x"}}}}}))
	f.Add(join(&agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}, &agentv2.Frame{Seq: 3, Body: &agentv2.Frame_Error{Error: &agentv2.Error{}}}))
	f.Fuzz(func(t *testing.T, script []byte) {
		s := live(t, Config{}, "m")
		for range 3 {
			openStream(t, s, 40<<10)
		}
		sent(s)
		for len(script) > 2 {
			n := min(int(binary.BigEndian.Uint16(script)), len(script)-2)
			if why := s.wire.receive(script[2 : 2+n]); why != nil {
				s.Shut(why)
			}
			script = script[2+n:]
			sent(s)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		buffered := int64(0)
		for _, st := range s.streams {
			if int64(len(st.in)) > s.cfg.StreamWindow {
				t.Errorf("%d bytes wait on one stream", len(st.in))
			}
			buffered += int64(len(st.in))
		}
		if buffered > s.cfg.ConnWindow || len(s.streams) > 3 || len(s.models) > maxModels || s.house.counts.Slots.Load() != int64(len(s.streams)) {
			t.Errorf("%d bytes, %d streams, %d slots, %d models", buffered, len(s.streams), s.house.counts.Slots.Load(), len(s.models))
		}
	})
}
