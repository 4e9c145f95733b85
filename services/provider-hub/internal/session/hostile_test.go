package session_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
)

func TestHostile36_FramesThatDoNotBelongEndTheConnection(t *testing.T) {
	for name, script := range map[string]func(s *wire, st *Stream) []*agentv2.Frame{
		"DATA on a stream never opened": func(*wire, *Stream) []*agentv2.Frame { return []*agentv2.Frame{data(99, 1, 1)} },
		"END on a stream never opened":  func(*wire, *Stream) []*agentv2.Frame { return []*agentv2.Frame{end(99, 1)} },
		"DATA behind END": func(_ *wire, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{end(st.ID(), 1), data(st.ID(), 2, 1)}
		},
		"END twice": func(_ *wire, st *Stream) []*agentv2.Frame { return []*agentv2.Frame{end(st.ID(), 1), end(st.ID(), 2)} },
		"a gap": func(_ *wire, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{data(st.ID(), 1, 1), data(st.ID(), 3, 1)}
		},
		"a repeat": func(_ *wire, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{data(st.ID(), 1, 1), data(st.ID(), 1, 1)}
		},
		"no number": func(_ *wire, st *Stream) []*agentv2.Frame { return []*agentv2.Frame{data(st.ID(), 0, 1)} },
		"a gap on stream 0": func(*wire, *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Seq: 5, Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}}}
		},
		"REGISTER twice": func(*wire, *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_Register{Register: &agentv2.Register{NodeId: "node-0001"}}}}
		},
		"a hub's frame on stream 0": func(*wire, *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Seq: 2, Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{}}}}
		},
		"a hub's frame on a request": func(_ *wire, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{{Stream: st.ID(), Seq: 1, Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}}}
		},
		"DATA on stream 0": func(*wire, *Stream) []*agentv2.Frame { return []*agentv2.Frame{data(0, 2, 1)} },
		"DATA above 16 KiB": func(_ *wire, st *Stream) []*agentv2.Frame {
			return []*agentv2.Frame{data(st.ID(), 1, agentwire.MaxData+1)}
		},
		"a window beyond all bounds": func(_ *wire, st *Stream) []*agentv2.Frame {
			w := &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1 << 31}}
			return []*agentv2.Frame{{Stream: st.ID(), Seq: 1, Body: w}}
		},
		"END before OPEN was sent": func(s *wire, _ *Stream) []*agentv2.Frame {
			st, err := s.Open(Request{Model: "m"})
			if err != nil {
				panic(err)
			}
			return []*agentv2.Frame{end(st.ID(), 1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := live(t, Config{}, "m")
			st := openStream(t, s, 1)
			sent(t, s)
			frames := script(s, st)
			for i, f := range frames {
				why := s.receive(encode(t, f))
				if last := i == len(frames)-1; last != (why != nil) {
					t.Fatalf("frame %d: last: got %t, want %t", i, last, why != nil)
				} else if last && why.Code != agentwire.CodeProtocolError {
					t.Fatalf("frame %d: why.Code: got %q, want %q, where last", i, why.Code, agentwire.CodeProtocolError)
				}
			}
		})
	}
}

func TestUnknownFieldsAndFramesAreTolerated(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 1)
	sent(t, s)
	unknown := []byte{0xfa, 0x06, 3, 1, 2, 3} // field 111
	for _, f := range []*agentv2.Frame{data(st.ID(), 1, 3), {Stream: st.ID(), Seq: 2}, {Seq: 2}, end(st.ID(), 3)} {
		if why := s.receive(append(encode(t, f), unknown...)); why != nil {
			t.Fatalf("%v: %v", f, why)
		}
	}
	if piece, e, _ := st.Take(); len(piece) != 3 {
		t.Errorf("took: got %d, want 3", len(piece))
	} else if e == nil {
		t.Error("e of st.Take(): got nil, want a value")
	}
}

func TestHostile39_WindowViolationResetsTheStreamAndThenTheConnection(t *testing.T) {
	s := live(t, Config{}, "m")
	first, second := openStream(t, s, 1), openStream(t, s, 1)
	sent(t, s)
	flood := func(st *Stream) (why *CloseReason) {
		for seq := range uint32(17) {
			if why = s.receive(encode(t, data(st.ID(), seq+1, agentwire.MaxData))); why != nil {
				return why
			}
		}
		return nil
	}
	if why := flood(first); why != nil {
		t.Fatal(why)
	}
	f := sent(t, s)
	if len(f) != 1 {
		t.Errorf("len(f): got %d, want 1, in %v", len(f), f)
	} else if want := first.ID(); f[0].GetStream() != want {
		t.Errorf("f[0].GetStream(): got %d, want %d", f[0].GetStream(), want)
	} else if f[0].GetError().GetCode() != agentwire.CodeWindowExceeded {
		t.Errorf("f[0].GetError().GetCode(): got %q, want %q", f[0].GetError().GetCode(), agentwire.CodeWindowExceeded)
	}
	if _, _, err := first.Take(); !errors.Is(err, ErrReset) {
		t.Errorf("take: got the error %v, want %v", err, ErrReset)
	}
	if why := s.receive(encode(t, data(first.ID(), 18, agentwire.MaxData))); why != nil {
		t.Errorf("what was under way behind the reset: %v", why)
	}
	if why := flood(second); why == nil {
		t.Error("a second violation: why: got no error, want one")
	} else if why.Code != agentwire.CodeWindowExceeded {
		t.Errorf("a second violation: why.Code: got %q, want %q", why.Code, agentwire.CodeWindowExceeded)
	}
}

func TestConnectionWindowBoundsAllStreamsTogether(t *testing.T) {
	s := live(t, Config{ConnWindow: 512 << 10}, "m")
	var why *CloseReason
	total := 0
	for range 4 {
		st := openStream(t, s, 1)
		sent(t, s)
		for seq := uint32(1); seq <= 16 && why == nil; seq++ {
			why = s.receive(encode(t, data(st.ID(), seq, agentwire.MaxData)))
			total += agentwire.MaxData
		}
	}
	switch {
	case why == nil:
		t.Error("why: got no error, want one")
	case why.Code != agentwire.CodeWindowExceeded:
		t.Errorf("why.Code: got %q, want %q", why.Code, agentwire.CodeWindowExceeded)
	case total != 512<<10+agentwire.MaxData:
		t.Errorf("total: got %d, want %d", total, 512<<10+agentwire.MaxData)
	}
}

func TestHostile43_FloodsOfHeartbeatsPingsAndEmptyFramesEndTheConnection(t *testing.T) {
	for name, send := range map[string]func(s *wire, st *Stream, n uint32) *CloseReason{
		"heartbeats with changing models": func(s *wire, _ *Stream, n uint32) *CloseReason {
			h := &agentv2.Heartbeat{Models: []*agentv2.ModelOffer{{ModelId: "m", Healthy: n%2 == 0}}}
			return s.receive(encode(t, &agentv2.Frame{Seq: n + 1, Body: &agentv2.Frame_Heartbeat{Heartbeat: h}}))
		},
		"pings":        func(s *wire, _ *Stream, _ uint32) *CloseReason { return s.Ping([]byte("x")) },
		"pongs":        func(s *wire, _ *Stream, _ uint32) *CloseReason { return s.Pong() },
		"empty frames": func(s *wire, st *Stream, n uint32) *CloseReason { return s.receive(encode(t, data(st.ID(), n, 0))) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := live(t, Config{}, "m")
			st := openStream(t, s, 1)
			sent(t, s)
			n := uint32(1)
			for ; n <= 200; n++ {
				if why := send(s, st, n); why != nil {
					break
				}
			}
			if n != ChatterBurst+1 {
				t.Errorf("%s: ended at number: got %d, want %d", name, n, ChatterBurst+1)
			}
			if waiting := len(sent(t, s)); waiting > ChatterBurst+1 {
				t.Errorf("%s: answers: got %d, want at most %d", name, waiting, ChatterBurst+1)
			}
		})
	}
}

func TestAnswersThatAreNotReadAreBounded(t *testing.T) {
	s := live(t, Config{}, "m")
	for n := range agentwire.MaxWaiting {
		s.Push(Outbound{Kind: OutCredit, Credit: 1})
		if waiting := s.WaitingControl(); waiting > agentwire.MaxWaiting {
			t.Fatalf("behind %d: got %d messages waiting, want at most %d", n+1, waiting, agentwire.MaxWaiting)
		}
	}
	if got := s.State(); got != Closing {
		t.Errorf("got state %d, want %d", got, Closing)
	}
	if got := s.WaitingControl(); got != 0 {
		t.Errorf("got %d messages waiting behind the end, want none", got)
	}
}

// FuzzFrames drives the state machine with messages of any content. The session never
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
	grant := &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 9}}
	beat := &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{Models: []*agentv2.ModelOffer{{ModelId: "x"}}}}
	drain, fails := &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}, &agentv2.Frame_Error{Error: &agentv2.Error{}}
	f.Add(join(data(2, 1, 0), &agentv2.Frame{Stream: 2, Seq: 2, Body: grant}))
	f.Add(join(&agentv2.Frame{Seq: 2, Body: beat}))
	f.Add(join(&agentv2.Frame{Seq: 2, Body: drain}, &agentv2.Frame{Seq: 3, Body: fails}))
	f.Fuzz(func(t *testing.T, script []byte) {
		s := live(t, Config{}, "m")
		for range 3 {
			openStream(t, s, 40<<10)
		}
		sent(t, s)
		for len(script) > 2 {
			n := min(int(binary.BigEndian.Uint16(script)), len(script)-2)
			if why := s.receive(script[2 : 2+n]); why != nil {
				s.Shut(why)
			}
			script = script[2+n:]
			sent(t, s)
		}
		buffered, most := s.Buffered()
		if most > s.env.Config.StreamWindow {
			t.Errorf("bytes wait on one stream: got %d, want at most %d", most, s.env.Config.StreamWindow)
		}
		streams, slots := s.Streams(), s.env.Counts.Slots.Load()
		models, _, _, _ := s.Sizes()
		switch {
		case buffered > s.env.Config.ConnWindow:
			t.Errorf("%d bytes, %d streams, %d slots, %d models: buffered: got %d, want at most %d", buffered, streams, slots,
				models, buffered, s.env.Config.ConnWindow)
		case streams > 3:
			t.Errorf("%d bytes, %d streams, %d slots, %d models: streams: got %d, want at most 3", buffered, streams, slots,
				models, streams)
		case models > MaxModels:
			t.Errorf("%d bytes, %d streams, %d slots, %d models: models: got %d, want at most %d", buffered, streams, slots,
				models, models, MaxModels)
		case slots != int64(streams):
			t.Errorf("%d bytes, %d streams, %d slots, %d models: slots: got %d, want %d", buffered, streams, slots, models,
				slots, int64(streams))
		}
	})
}
