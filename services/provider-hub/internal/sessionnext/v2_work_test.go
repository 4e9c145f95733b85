package session_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/quota"
	. "svc.internal/services/provider-hub/internal/sessionnext"
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
				t.Errorf("%s: %d are taken, want at most %d", name, n, most)
			}
		}
	})
}

// An agent of another make may grant what it takes in steps as small as DATA.
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
		t.Errorf("%d bytes of the body were sent", taken)
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
				t.Fatalf("%s: %d bytes are held", name, held)
			}
			if n < 5 {
				continue
			}
			if st.Err() != nil {
				break
			}
		}
		if _, _, err := st.Take(); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%s: ended with %v, want %v", name, err, ErrNoRoom)
		}
		st.Close(true)
		if held := s.env.Counts.Held.Load(); held != 0 || s.env.Held.Left() != quota.Shares*budget {
			t.Errorf("%s: %d bytes are held in the end, and %d are left", name, held, s.env.Held.Left())
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
		t.Errorf("%d bytes are left in the end, want %d", left, all)
	}
}

func make16k() []byte {
	b := make([]byte, agentwire.MaxData)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// FuzzFramesOfV2StayWithinABudgetOfWork has an agent send frames that are all in
// order, in any sequence and at any time: what the hub does for them is bounded by
// the time and by what the hub asked for.
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
	s := liveIn(t, tight(1<<20), "good", "m")
	began := time.Now()
	seq := map[uint32]uint32{0: 1}
	open := []*Stream{}
	frames, earned, grants := 0, 0, 0
	say := func(stream uint32, f *agentv2.Frame) bool {
		seq[stream]++
		f.Stream, f.Seq = stream, seq[stream]
		return s.receive(encode(t, f)) == nil
	}
	for _, op := range ops {
		stream := uint32(0)
		if len(open) > 0 {
			stream = open[len(open)-1].ID()
		}
		ok := true
		switch op % 12 {
		case 0:
			st, err := s.Open(Request{RequestID: "r", Model: "m", Stream: true, Body: make([]byte, int(op)<<8)})
			if err != nil {
				continue
			}
			open = append(open, st)
			earned += EarnedByOpen
		case 1:
			ok = say(0, &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{}}})
			frames++
		case 2:
			ok = say(0, &agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
			frames++
		case 3:
			ok = say(0, &agentv2.Frame{})
			frames++
		case 4:
			ok = say(0, &agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{ActiveRequests: int32(op)}}})
			frames++
		case 5:
			ok = say(0, &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: 1}}})
			frames++
		case 6, 7:
			if stream == 0 {
				continue
			}
			ok = say(stream, &agentv2.Frame{Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: uint32(op) << 4}}})
			frames++
		case 8:
			if stream == 0 {
				continue
			}
			ok = say(stream, data(stream, 0, int(op)*64))
		case 9:
			if stream == 0 {
				continue
			}
			ok = say(stream, end(stream, 0))
			frames++
			open[len(open)-1].Close(true)
			open = open[:len(open)-1]
		case 10:
			time.Sleep(time.Duration(op) * time.Millisecond) //nolint:forbidigo // of a synctest bubble
		case 11:
			if len(open) == 0 {
				continue
			}
			st := open[len(open)-1]
			piece, _, _ := st.Take()
			st.Release(len(piece), piece)
		}
		out := sent(t, s)
		for _, f := range out {
			earned += len(f.GetData().GetData())/EarnedByBytes + 1
			if f.GetWindow() != nil {
				grants++
			}
		}
		if !ok {
			frames--
			break
		}
	}
	spent := int(time.Since(began).Seconds()*ChatterRate) + ChatterBurst + earned
	if frames > spent {
		t.Errorf("%d frames were taken, want at most %d", frames, spent)
	}
	if held := s.env.Counts.Held.Load(); held > 1<<20 || held < 0 {
		t.Errorf("%d bytes are held", held)
	}
	if s.Earned() > MaxEarned || s.WaitingControl() > agentwire.MaxWaiting || grants > len(ops) {
		t.Errorf("earned %d, %d frames wait, %d grants", s.Earned(), s.WaitingControl(), grants)
	}
	for _, st := range open {
		st.Close(true)
	}
}
