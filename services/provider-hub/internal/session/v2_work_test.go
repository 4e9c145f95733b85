package session_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/quota"
	. "svc.internal/services/provider-hub/internal/session"
)

// idle are frames of v2 that an agent may send at any time and that ask for
// nothing.
func idle() map[string]*agentv2.Frame {
	grant := func(stream, bytes uint32) *agentv2.Frame {
		return &agentv2.Frame{Stream: stream, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: bytes}}}
	}
	return map[string]*agentv2.Frame{
		"WINDOW{0} of the connection": grant(0, 0), "WINDOW{0} of a stream": grant(1, 0),
		"WINDOW{1} of the connection": grant(0, 1), "WINDOW{1} of a stream": grant(1, 1),
		"DRAIN":                   {Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}},
		"no body":                 {},
		"no body, on a stream":    {Stream: 1},
		"HEARTBEAT":               {Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}},
		"empty DATA":              data(1, 0, 0),
		"WINDOW{0}, ended stream": grant(2, 0),
		"WINDOW{1}, ended stream": grant(2, 1),
	}
}

func TestFloodOfAnyFrameButDataEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // tokens come with time
		for name, f := range idle() {
			s := live(t, Config{}, "m")
			openStream(t, s, 10)
			ended := openStream(t, s, 10)
			sent(t, s)
			if why := s.receive(encode(t, end(2, 1))); why != nil {
				t.Fatal(why)
			}
			ended.Close(false)
			var seq uint32
			if f.GetStream() == 0 || f.GetStream() == 2 {
				seq = 1 // the registration on stream 0, the end on stream 2
			}
			n := 0
			for ; n < 10_000; n++ {
				seq++
				f.Seq = seq
				if why := s.receive(encode(t, f)); why != nil {
					break
				}
			}
			if most := ChatterBurst + 2*EarnedByOpen; n > most {
				t.Errorf("%s: got %d taken, want at most %d", name, n, most)
			}
		}
	})
}

// An agent of another make may grant credit again in steps as small as DATA.
func TestGrantsOfCreditForBodiesNeverCount(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 4<<20)
	taken, seq, conn := int64(0), uint32(0), uint32(1)
	for range 10_000 {
		n := int64(0)
		for _, f := range sent(t, s) {
			n += int64(len(f.GetData().GetData()))
		}
		if taken += n; n == 0 {
			break
		}
		for ; n > 0; n -= agentwire.MaxData {
			w := &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: uint32(min(n, agentwire.MaxData))}}
			seq, conn = seq+1, conn+1
			for _, f := range []*agentv2.Frame{{Stream: 1, Seq: seq, Body: w}, {Seq: conn, Body: w}} {
				if why := s.receive(encode(t, f)); why != nil {
					t.Fatalf("behind %d bytes: %v", taken, why)
				}
			}
		}
	}
	if taken != 4<<20 {
		t.Errorf("bytes of the body were sent: got %d, want 4<<20", taken)
	}
	st.Close(true)
}

func TestEndsOfManyRequestsNeverCount(t *testing.T) {
	s := live(t, Config{}, "m")
	for n := range uint32(10 * ChatterBurst) {
		st := openStream(t, s, 10)
		sent(t, s)
		if why := s.receive(encode(t, end(n+1, 1))); why != nil {
			t.Fatalf("number %d: %v", n+1, why)
		}
		st.Close(false)
	}
	if s.Earned() > MaxEarned {
		t.Error("more is kept of what was earned than may be")
	}
}

func TestWhatAllStreamsHoldIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		session func(*Env) *wire
		open    func(*wire) *Stream
		piece   func(n uint32) []byte
	}{
		"v2": {
			func(env *Env) *wire { return liveIn(t, env, "good", "m") },
			func(s *wire) *Stream { st := openStream(t, s, 1); sent(t, s); return st },
			func(n uint32) []byte { return encode(t, data(1, n, agentwire.MaxData)) },
		},
		"v1": {
			func(env *Env) *wire { return liveOldIn(t, env) },
			func(s *wire) *Stream { st, _ := ask(t, s, true); return st },
			func(uint32) []byte { return []byte(chunk("r-1", `"`+string(make16k())+`"`, false)) },
		},
	} {
		const budget = 128 << 10 // of one provider
		s := c.session(tight(quota.Shares * budget))
		st := c.open(s)
		for n := range uint32(16) {
			if why := s.receive(c.piece(n + 1)); why != nil {
				t.Fatal(name, why)
			}
			if held := s.env.Counts.Held.Load(); held > budget {
				t.Fatalf("%s: bytes held: got %d, want at most %d", name, held, budget)
			}
			if n < 5 {
				continue
			}
			if st.Err() != nil {
				break
			}
		}
		if _, _, err := st.Take(); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%s: ended: got %v, want %v", name, err, ErrNoRoom)
		}
		st.Close(true)
		if held := s.env.Counts.Held.Load(); held != 0 {
			t.Errorf("%s: held: got %d, want 0", name, held)
		} else if s.env.Held.Left() != quota.Shares*budget {
			t.Errorf("%s: s.env.Held.Left(): got %d, want %d", name, s.env.Held.Left(), quota.Shares*budget)
		}
	}
}

// A provider whose consumers do not read takes nothing from the streams of others.
func TestWhatTheStreamsOfOneProviderHoldIsBounded(t *testing.T) {
	const pieces = 2 // of a provider
	const all = quota.Shares * pieces * agentwire.MaxData
	env := tight(all)
	one, other, sibling := liveIn(t, env, "good", "m"), liveIn(t, env, "other", "m"), liveIn(t, env, "good", "m")
	streams := map[*wire]*Stream{}
	for _, s := range []*wire{one, other, sibling} {
		streams[s] = openStream(t, s, 1)
		sent(t, s)
	}
	give := func(s *wire, n uint32) error {
		t.Helper()
		if why := s.receive(encode(t, data(1, n, agentwire.MaxData))); why != nil {
			t.Fatal(why)
		}
		return streams[s].Err()
	}
	for n := range uint32(pieces) {
		if err := give(one, n+1); err != nil {
			t.Fatalf("piece %d of a provider that has room for %d: got %v", n+1, pieces, err)
		}
	}
	if err := give(sibling, 1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("another connection of a provider that holds its share: got %v, want %v", err, ErrNoRoom)
	}
	if err := give(other, 1); err != nil {
		t.Errorf("another provider: got %v, want none", err)
	}
	if _, _, err := streams[one].Take(); err != nil {
		t.Errorf("the stream that held: got %v, want what it has", err)
	}
	if err := give(one, pieces+1); err != nil {
		t.Errorf("when that was taken: got %v, want none", err)
	}
	for _, st := range streams {
		st.Close(true)
	}
	if left := env.Held.Left(); left != all {
		t.Errorf("got %d bytes left in the end, want %d", left, all)
	}
}

func make16k() []byte {
	b := make([]byte, agentwire.MaxData)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// FuzzFramesOfV2StayWithinABudgetOfWork has an agent send frames with valid numbers, in
// any sequence and at any time. The hub's work for the frames is bounded by the time and
// by what the hub asked for.
func FuzzFramesOfV2StayWithinABudgetOfWork(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{9, 9, 8, 8, 1, 1, 1, 1, 1, 1, 7, 7, 7, 7})
	flood := make([]byte, 4096)
	for i := range flood {
		flood[i] = byte(1 + i%6)
	}
	f.Add(flood)
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { work(t, ops) })
	})
}

// work plays a sequence of frames.
func work(t *testing.T, ops []byte) {
	p := &worker{t: t, s: liveIn(t, tight(1<<20), "good", "m"), seq: map[uint32]uint32{0: 1}}
	began := time.Now()
	earned, grants := 0, 0
	for _, op := range ops {
		opened, ok := p.do(op)
		if opened {
			earned += EarnedByOpen
		}
		for _, f := range sent(t, p.s) {
			earned += len(f.GetData().GetData())/EarnedByBytes + 1
			if f.GetWindow() != nil {
				grants++
			}
		}
		if !ok {
			p.frames--
			break
		}
	}
	spent := int(time.Since(began).Seconds()*ChatterRate) + ChatterBurst + earned
	if p.frames > spent {
		t.Errorf("frames that were taken: got %d, want at most %d", p.frames, spent)
	}
	if held := p.s.env.Counts.Held.Load(); held > 1<<20 || held < 0 {
		t.Errorf("bytes held: got %d, want 0 to %d", held, 1<<20)
	}
	if p.s.Earned() > MaxEarned || p.s.WaitingControl() > agentwire.MaxWaiting || grants > len(ops) {
		t.Errorf("got %d earned, %d frames that wait and %d grants, want at most %d, %d and %d",
			p.s.Earned(), p.s.WaitingControl(), grants, MaxEarned, agentwire.MaxWaiting, len(ops))
	}
	for _, st := range p.open {
		st.Close(true)
	}
}

// worker is an agent of v2 that does what a script says.
type worker struct {
	t      *testing.T
	s      *wire
	seq    map[uint32]uint32
	open   []*Stream
	frames int // frames that were sent, other than DATA
}

// say sends a frame, and reports whether the session stays.
func (p *worker) say(stream uint32, f *agentv2.Frame) bool {
	p.seq[stream]++
	f.Stream, f.Seq = stream, p.seq[stream]
	if f.GetData() == nil {
		p.frames++
	}
	return p.s.receive(encode(p.t, f)) == nil
}

// do does one step of a script. It reports whether a request was opened, and whether
// the session stays.
func (p *worker) do(op byte) (opened, ok bool) {
	if op%12 == 0 {
		st, err := p.s.Open(Request{RequestID: "r", Model: "m", Stream: true, Body: make([]byte, int(op)<<8)})
		if err == nil {
			p.open = append(p.open, st)
		}
		return err == nil, true
	}
	switch op % 12 {
	case 1:
		return false, p.say(0, &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{}}})
	case 2:
		return false, p.say(0, &agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
	case 3:
		return false, p.say(0, &agentv2.Frame{})
	case 4:
		beat := &agentv2.Heartbeat{ActiveRequests: int32(op)}
		return false, p.say(0, &agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: beat}})
	case 5:
		return false, p.say(0, &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1}}})
	case 10:
		time.Sleep(time.Duration(op) * time.Millisecond) //nolint:forbidigo // of a synctest bubble
	default:
		return false, len(p.open) == 0 || p.onLast(op)
	}
	return false, true
}

// onLast does a step with the newest request, and reports whether the session stays.
func (p *worker) onLast(op byte) bool {
	last := len(p.open) - 1
	st := p.open[last]
	switch op % 12 {
	case 8:
		return p.say(st.ID(), data(st.ID(), 0, int(op)*64))
	case 9:
		ok := p.say(st.ID(), end(st.ID(), 0))
		st.Close(true)
		p.open = p.open[:last]
		return ok
	case 11:
		piece, _, _ := st.Take()
		st.Release(len(piece), piece)
		return true
	default:
		credit := &agentv2.Window{Bytes: uint32(op) << 4}
		return p.say(st.ID(), &agentv2.Frame{Body: &agentv2.Frame_Window{Window: credit}})
	}
}
