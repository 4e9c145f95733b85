package session

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// dial connects over pipes.
func (e *endpoint) dial(t *testing.T, opts fakeagent.Options) (*fakeagent.Agent, error) {
	opts.NetDial = e.pipes.dial
	if opts.Models == nil {
		opts.Models = []string{"m"}
	}
	return fakeagent.Dial(t.Context(), "ws://hub/ws", opts)
}

func (e *endpoint) mustDial(t *testing.T, opts fakeagent.Options) *fakeagent.Agent {
	t.Helper()
	a, err := e.dial(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// farewell waits for the end of a connection and tells why and after what time.
func farewell(t *testing.T, a *fakeagent.Agent, since time.Time) (string, time.Duration) {
	t.Helper()
	<-a.Closed()
	a.Close()
	return a.Farewell().GetCode(), time.Since(since)
}

func TestSocketThatDoesNotRegisterIsClosedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		began := time.Now()
		a, err := fakeagent.Connect(t.Context(), "ws://hub/ws", fakeagent.Options{NetDial: e.pipes.dial})
		if err != nil {
			t.Fatal(err)
		}
		code, after := farewell(t, a, began)
		if code != CodeRegisterTimeout || after < 10*time.Second || after > 12*time.Second {
			t.Errorf("closed with %q after %v", code, after)
		}
	})
}

func TestRefusedRegistrationIsHeldTwoSeconds(t *testing.T) {
	for key, want := range map[string]string{"bad": CodeInvalidKey, "down": CodeTryLater} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{})
			began := time.Now()
			_, err := e.dial(t, fakeagent.Options{Key: key})
			var refused *fakeagent.Refused
			if !errors.As(err, &refused) || refused.Frame.GetCode() != want || refused.Frame.GetReconnectAfterMs() < 2000 {
				t.Errorf("key %q: %v", key, err)
			}
			if held := time.Since(began); held < 2*time.Second || held > 4*time.Second {
				t.Errorf("held for %v", held)
			}
		})
	}
}

func TestSessionWithoutHeartbeatsEndsAfterThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		began := time.Now()
		a := e.mustDial(t, fakeagent.Options{NoHeartbeats: true})
		code, after := farewell(t, a, began)
		if code != CodeProtocolError || after < 30*time.Second || after > 32*time.Second {
			t.Errorf("closed with %q after %v", code, after)
		}
	})
}

func TestSessionWithHeartbeatsAndPongsLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.mustDial(t, fakeagent.Options{})
		select {
		case <-a.Closed():
			t.Errorf("closed: %v", a.Farewell())
		case <-time.After(time.Hour):
		}
		a.Close()
		if err := a.Fault(); err != nil {
			t.Error(err)
		}
	})
}

func TestRegistrationWaitsForItsAnswerOffTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		e.desk.wait = make(chan struct{})
		began := time.Now()
		_, err := e.dial(t, fakeagent.Options{})
		var refused *fakeagent.Refused
		if !errors.As(err, &refused) || refused.Frame.GetCode() != CodeTryLater || time.Since(began) < 5*time.Second {
			t.Errorf("a look-up that hangs: %v after %v", err, time.Since(began))
		}
	})
}

func TestRegisterIsBoundedAndCleaned(t *testing.T) {
	many := make([]*agentv2.ModelOffer, maxModels+1)
	for i := range many {
		many[i] = &agentv2.ModelOffer{ModelId: "m"}
	}
	for name, c := range map[string]struct {
		register *agentv2.Register
		want     string
	}{
		"too many models":       {&agentv2.Register{NodeId: "node-0001", Models: many}, CodeTooManyModels},
		"too many capabilities": {&agentv2.Register{NodeId: "node-0001", Capabilities: make([]string, 33)}, CodeProtocolError},
		"short node":            {&agentv2.Register{NodeId: "node"}, CodeProtocolError},
		"long node":             {&agentv2.Register{NodeId: strings.Repeat("n", 65)}, CodeProtocolError},
		"node with a newline":   {&agentv2.Register{NodeId: "node-0001\n"}, CodeProtocolError},
	} {
		s := fresh(Config{}, speakV2)
		why := s.wire.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: c.register}}))
		if why == nil || why.Code != c.want || why.Hold < 2*time.Second {
			t.Errorf("%s: %v", name, why)
		}
		s.end()
	}
	s := fresh(Config{}, speakV2)
	defer s.end()
	register := &agentv2.Register{
		NodeId: "node-0001", NodeName: "a\x1b[31mb\u202e" + strings.Repeat("c", 100), Region: strings.Repeat("r", 99),
		Capabilities: []string{"chat", "<b>", ""}, MaxRequestBytes: -4,
		Models: []*agentv2.ModelOffer{
			{ModelId: "acme/ok", Capacity: -1, ContextLength: 1 << 40, Quantization: "q\n4", EngineModel: "o\nk" + strings.Repeat("x", 300)},
			{ModelId: "acme/ok"}, {ModelId: "bad id\r\n"}, {ModelId: ""}, {ModelId: strings.Repeat("x", 201)},
			{ModelId: "acme/huge", Capacity: 1 << 30},
		},
	}
	if why := s.wire.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}})); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	v, ok := s.View()
	if !ok || v.NodeName != "a[31mb"+strings.Repeat("c", 58) || len(v.Region) != maxRegion || v.MaxRequestBytes != defaultRequestBytes ||
		len(v.Capabilities) != 1 || len(v.Offers) != 2 {
		t.Fatalf("view %+v", v)
	}
	if o := v.Offers[0]; o.Model != "acme/ok" || o.Capacity != 10 || o.ContextLength != maxContext || o.Quantization != "q4" ||
		o.EngineModel != "ok"+strings.Repeat("x", 198) {
		t.Errorf("offer %+v", o)
	}
	if o := v.Offers[1]; o.Capacity != maxCapacity {
		t.Errorf("offer %+v", o)
	}
	ack := sent(s)[0].GetRegisterAck()
	if n := len(ack.GetRefusedModels()); n != 4 || ack.GetRefusedModels()["acme/ok"] == "" {
		t.Errorf("refused %v", ack.GetRefusedModels())
	}
}

func TestSlotsAreCountedAndFreedByTheEnd(t *testing.T) {
	s := live(t, Config{}, "m")
	var streams []*Stream
	for range 10 {
		streams = append(streams, openStream(t, s, 1))
	}
	if _, err := s.Open(Request{Model: "m"}); !errors.Is(err, ErrBusy) {
		t.Errorf("an eleventh: %v", err)
	}
	if _, err := s.Open(Request{Model: "other"}); !errors.Is(err, ErrNotOffered) {
		t.Errorf("another model: %v", err)
	}
	sent(s)
	if why := s.wire.receive(encode(t, end(streams[3].id, 1))); why != nil {
		t.Fatal(why)
	}
	openStream(t, s, 1)
	streams[5].Close(true) // keeps its slot until the agent ends it
	if _, err := s.Open(Request{Model: "m"}); !errors.Is(err, ErrBusy) {
		t.Errorf("beside a cancelled one: %v", err)
	}
	if got := s.house.counts.Slots.Load(); got != 10 {
		t.Errorf("%d slots taken", got)
	}
	s.SetStanding(false, false, nil)
	if _, err := s.Open(Request{Model: "m"}); !errors.Is(err, ErrGone) {
		t.Errorf("not active: %v", err)
	}
}

func TestRequestThatNeverLeftIsTakenBackSilently(t *testing.T) {
	s := live(t, Config{}, "m")
	sent(s)
	openStream(t, s, 1).Close(true)
	if frames := sent(s); len(frames) != 0 || s.Streams() != 0 {
		t.Errorf("sent %v, %d streams", frames, s.Streams())
	}
}

func TestBodiesShareTheSocketFairlyAndWithinCredit(t *testing.T) {
	s := live(t, Config{}, "m")
	sent(s)
	a, b := openStream(t, s, 1<<20), openStream(t, s, 100<<10)
	frames := sent(s)
	bytesOf := map[uint32]int{}
	var turns []uint32
	for _, f := range frames {
		if d := f.GetData(); d != nil {
			bytesOf[f.GetStream()] += len(d.GetData())
			turns = append(turns, f.GetStream())
			if len(d.GetData()) > maxData {
				t.Errorf("DATA of %d bytes", len(d.GetData()))
			}
		}
	}
	if bytesOf[a.id] != 256<<10 || bytesOf[b.id] != 100<<10 {
		t.Errorf("sent %v, want the window of the first and all of the second", bytesOf)
	}
	for i := 0; i < 12; i += 2 {
		if turns[i] == turns[i+1] {
			t.Errorf("turns %v: one stream twice in a row", turns)
			break
		}
	}
	grant := func(seq uint32, n uint32) {
		t.Helper()
		w := &agentv2.Frame{Stream: a.id, Seq: seq, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: n}}}
		if why := s.wire.receive(encode(t, w)); why != nil {
			t.Fatal(why)
		}
	}
	grant(1, 5)
	if f := sent(s); len(f) != 1 || len(f[0].GetData().GetData()) != 5 {
		t.Errorf("after 5 bytes of credit: %v", f)
	}
	// A cancel overtakes what waits, and nothing more of the body follows.
	a.Cancel()
	grant(2, 1<<20)
	if f := sent(s); len(f) != 1 || f[0].GetCancel() == nil {
		t.Errorf("after a cancel: %d frames, first %v", len(f), f[0])
	}
}

func TestCreditIsGrantedOnlyAsTheConsumerPassesOn(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 1)
	sent(s)
	for seq := range uint32(16) {
		if why := s.wire.receive(encode(t, data(st.id, seq+1, maxData))); why != nil {
			t.Fatal(why)
		}
	}
	piece, _, _ := st.Take()
	if len(piece) != 256<<10 || len(sent(s)) != 0 {
		t.Fatalf("took %d bytes", len(piece))
	}
	st.Release(len(piece), piece)
	f := sent(s)
	if len(f) != 1 || f[0].GetWindow().GetBytes() != 256<<10 || f[0].GetStream() != st.id {
		t.Errorf("granted %v", f)
	}
}

func TestDataIsDeliveredInOrderWithTheEndLast(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 1)
	sent(s)
	var want []byte
	for seq := range uint32(5) {
		f := data(st.id, seq+1, 100)
		want = append(want, f.GetData().GetData()...)
		if why := s.wire.receive(encode(t, f)); why != nil {
			t.Fatal(why)
		}
	}
	if why := s.wire.receive(encode(t, end(st.id, 6))); why != nil {
		t.Fatal(why)
	}
	<-st.Ready()
	got, e, err := st.Take()
	if !bytes.Equal(got, want) || e == nil || !e.Complete || err != nil {
		t.Errorf("took %d bytes, end %v, %v", len(got), e, err)
	}
}

func TestCloseFailsEveryStreamAtOnce(t *testing.T) {
	s := live(t, Config{}, "m")
	a, b := openStream(t, s, 1), openStream(t, s, 1)
	sent(s)
	s.Shut(closing(CodeSuperseded, "x"))
	for _, st := range []*Stream{a, b} {
		<-st.Ready()
		if _, _, err := st.Take(); !errors.Is(err, ErrLost) {
			t.Errorf("take: %v", err)
		}
	}
	if why := s.wire.receive(encode(t, data(a.id, 1, 10))); why != nil {
		t.Errorf("a frame behind the closing: %v", why)
	}
	if f := sent(s); len(f) != 1 || f[0].GetError().GetCode() != CodeSuperseded {
		t.Errorf("sent %v", f)
	}
	if s.Streams() != 0 || s.house.counts.Slots.Load() != 0 {
		t.Errorf("%d streams, %d slots", s.Streams(), s.house.counts.Slots.Load())
	}
}

func TestReleasedStreamLosesItsSlotAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := live(t, Config{}, "m")
		whole, cancelled := openStream(t, s, 1), openStream(t, s, 1)
		sent(s)
		whole.Close(false) // its answer was whole; only END is missing
		cancelled.Close(true)
		time.Sleep(11 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if s.Streams() != 1 {
			t.Errorf("%d streams after one grace", s.Streams())
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if s.Streams() != 0 {
			t.Errorf("%d streams after two", s.Streams())
		}
		// What comes then is on a stream that is not open.
		if why := s.wire.receive(encode(t, end(cancelled.id, 1))); why == nil || why.Code != CodeProtocolError {
			t.Errorf("END behind the grace: %v", why)
		}
	})
}

func TestServerLetsSocketsInAtASteadyRateAndUpToItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{HandshakeRate: 1, HandshakeBurst: 1, MaxSockets: 3})
		began := time.Now()
		var agents []*fakeagent.Agent
		for i := range 3 {
			agents = append(agents, e.mustDial(t, fakeagent.Options{NodeID: "node-000" + string(rune('a'+i))}))
		}
		if took := time.Since(began); took < 1900*time.Millisecond {
			t.Errorf("three handshakes took %v at one a second", took)
		}
		if _, err := e.dial(t, fakeagent.Options{}); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("a fourth socket of three: %v", err)
		}
		if n := e.counts.Sockets.Load(); n != 3 {
			t.Errorf("%d sockets", n)
		}
		for _, a := range agents {
			a.Close()
		}
	})
}

func TestCloseReturnsOnlyWhenSocketsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.mustDial(t, fakeagent.Options{})
		if err := e.server.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		<-a.Closed()
		a.Close()
		if e.counts.Sockets.Load() != 0 || e.desk.left != 1 {
			t.Errorf("%d sockets, %d left", e.counts.Sockets.Load(), e.desk.left)
		}
	})
}
