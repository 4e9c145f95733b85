package session_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
)

func TestRegisterIsBoundedAndCleaned(t *testing.T) {
	many := make([]*agentv2.ModelOffer, MaxModels+1)
	for i := range many {
		many[i] = &agentv2.ModelOffer{ModelId: "m"}
	}
	for name, c := range map[string]struct {
		register *agentv2.Register
		want     string
	}{
		"too many models": {&agentv2.Register{NodeId: "node-0001", Models: many}, agentwire.CodeTooManyModels},
		"too many capabilities": {
			&agentv2.Register{NodeId: "node-0001", Capabilities: make([]string, 33)}, agentwire.CodeProtocolError,
		},
		"short node":          {&agentv2.Register{NodeId: "node"}, agentwire.CodeProtocolError},
		"long node":           {&agentv2.Register{NodeId: strings.Repeat("n", 65)}, agentwire.CodeProtocolError},
		"node with a newline": {&agentv2.Register{NodeId: "node-0001\n"}, agentwire.CodeProtocolError},
	} {
		s := fresh(Config{}, speakV2())
		why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: c.register}}))
		switch {
		case why == nil:
			t.Errorf("%s: why: got no error, want one", name)
		case why.Code != c.want:
			t.Errorf("%s: why.Code: got %q, want %q", name, why.Code, c.want)
		case why.Hold < 2*time.Second:
			t.Errorf("%s: why.Hold: got %v, want at least %v", name, why.Hold, 2*time.Second)
		}
		s.end()
	}
	s := fresh(Config{}, speakV2())
	defer s.end()
	register := &agentv2.Register{
		NodeId: "node-0001", NodeName: "a\x1b[31mb\u202e" + strings.Repeat("c", 100), Region: strings.Repeat("r", 99),
		Capabilities: []string{"chat", "<b>", ""}, MaxRequestBytes: -4,
		Models: []*agentv2.ModelOffer{
			{
				ModelId: "acme/ok", Capacity: -1, ContextLength: 1 << 40, Quantization: "q\n4",
				EngineModel: "o\nk" + strings.Repeat("x", 300),
			},
			{ModelId: "acme/ok"}, {ModelId: "bad id\r\n"}, {ModelId: ""}, {ModelId: strings.Repeat("x", 201)},
			{ModelId: "acme/huge", Capacity: 1 << 30},
		},
	}
	if why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}})); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	v, ok := s.View()
	if !ok || v.NodeName != "a[31mb"+strings.Repeat("c", 58) || len(v.Region) != MaxRegion ||
		v.MaxRequestBytes != DefaultBytes || len(v.Capabilities) != 1 || len(v.Offers) != 2 {
		t.Fatalf("view %+v", v)
	}
	if o := v.Offers[0]; o.Model != "acme/ok" || o.Capacity != 10 || o.ContextLength != MaxContext ||
		o.Quantization != "q4" || o.EngineModel != "ok"+strings.Repeat("x", 198) {
		t.Errorf("offer %+v", o)
	}
	if o := v.Offers[1]; o.Capacity != MaxCapacity {
		t.Errorf("offer: got %d, want %d", o.Capacity, MaxCapacity)
	}
	ack := sent(t, s)[0].GetRegisterAck()
	if n := len(ack.GetRefusedModels()); n != 4 {
		t.Errorf("len(ack.GetRefusedModels()): got %d, want 4", n)
	} else if ack.GetRefusedModels()["acme/ok"] == "" {
		t.Error(`ack.GetRefusedModels()["acme/ok"]: got "", want some text`)
	}
}

func TestSlotsAreCountedAndFreedByTheEnd(t *testing.T) {
	s := live(t, Config{}, "m")
	var streams []*Stream
	for range 10 {
		streams = append(streams, openStream(t, s, 1))
	}
	if _, err := s.Open(Request{Model: "m"}); !errors.Is(err, ErrBusy) {
		t.Errorf("an eleventh: got the error %v, want %v", err, ErrBusy)
	}
	if _, err := s.Open(Request{Model: "other"}); !errors.Is(err, ErrNotOffered) {
		t.Errorf("another model: got the error %v, want %v", err, ErrNotOffered)
	}
	sent(t, s)
	if why := s.receive(encode(t, end(streams[3].ID(), 1))); why != nil {
		t.Fatal(why)
	}
	openStream(t, s, 1)
	streams[5].Close(true) // keeps its slot until the agent ends it
	if _, err := s.Open(Request{Model: "m"}); !errors.Is(err, ErrBusy) {
		t.Errorf("beside a cancelled one: got the error %v, want %v", err, ErrBusy)
	}
	if got := s.env.Counts.Slots.Load(); got != 10 {
		t.Errorf("slots taken: got %d, want 10", got)
	}
	s.SetStanding(false, false, nil)
	if _, err := s.Open(Request{Model: "m"}); !errors.Is(err, ErrGone) {
		t.Errorf("not active: got the error %v, want %v", err, ErrGone)
	}
}

func TestRequestThatNeverLeftIsTakenBackSilently(t *testing.T) {
	s := live(t, Config{}, "m")
	sent(t, s)
	openStream(t, s, 1).Close(true)
	if frames := sent(t, s); len(frames) != 0 {
		t.Errorf("len(frames): got %d, want 0, in %v", len(frames), frames)
	} else if s.Streams() != 0 {
		t.Errorf("s.Streams(): got %d, want 0", s.Streams())
	}
}

func TestBodiesShareTheSocketFairlyAndWithinCredit(t *testing.T) {
	s := live(t, Config{}, "m")
	sent(t, s)
	a, b := openStream(t, s, 1<<20), openStream(t, s, 100<<10)
	frames := sent(t, s)
	bytesOf := map[uint32]int{}
	var turns []uint32
	for _, f := range frames {
		if d := f.GetData(); d != nil {
			bytesOf[f.GetStream()] += len(d.GetData())
			turns = append(turns, f.GetStream())
			if len(d.GetData()) > agentwire.MaxData {
				t.Errorf("DATA: got %d, want at most %d", len(d.GetData()), agentwire.MaxData)
			}
		}
	}
	if found := bytesOf[a.ID()]; found != 256<<10 {
		t.Errorf("bytesOf[a.ID()]: got %d, want 256<<10", found)
	} else if found := bytesOf[b.ID()]; found != 100<<10 {
		t.Errorf("bytesOf[b.ID()]: got %d, want 100<<10", found)
	}
	for i := 0; i < 12; i += 2 {
		if turns[i] == turns[i+1] {
			t.Errorf("turns %v: the stream of one turn and of the next: got %d, want any but %d", turns, turns[i], turns[i+1])
			break
		}
	}
	grant := func(seq uint32, n uint32) {
		t.Helper()
		w := &agentv2.Frame{Stream: a.ID(), Seq: seq, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: n}}}
		if why := s.receive(encode(t, w)); why != nil {
			t.Fatal(why)
		}
	}
	grant(1, 5)
	if f := sent(t, s); len(f) != 1 {
		t.Errorf("after 5 bytes of credit: len(f): got %d, want 1, in %v", len(f), f)
	} else if len(f[0].GetData().GetData()) != 5 {
		t.Errorf("after 5 bytes of credit: len(f[0].GetData().GetData()): got %d, want 5, in %v",
			len(f[0].GetData().GetData()), f)
	}
	// A cancel overtakes the waiting pieces, and no more of the body follows.
	a.Cancel()
	grant(2, 1<<20)
	if f := sent(t, s); len(f) != 1 {
		t.Errorf("after a cancel: len(f): got %d, want 1", len(f))
	} else if f[0].GetCancel() == nil {
		t.Error("after a cancel: f[0].GetCancel(): got nil, want a value")
	}
}

func TestCreditIsGrantedOnlyAsTheConsumerPassesOn(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 1)
	sent(t, s)
	for seq := range uint32(16) {
		if why := s.receive(encode(t, data(st.ID(), seq+1, agentwire.MaxData))); why != nil {
			t.Fatal(why)
		}
	}
	piece, _, _ := st.Take()
	if len(piece) != 256<<10 {
		t.Fatalf("took: got %d, want 256<<10", len(piece))
	}
	if got := len(sent(t, s)); got != 0 {
		t.Fatalf("len(sent(t, s)): got %d, want 0", got)
	}
	st.Release(len(piece), piece)
	f := sent(t, s)
	if len(f) != 1 {
		t.Errorf("granted: len(f): got %d, want 1, in %v", len(f), f)
	} else if f[0].GetWindow().GetBytes() != 256<<10 {
		t.Errorf("granted: f[0].GetWindow().GetBytes(): got %d, want 256<<10", f[0].GetWindow().GetBytes())
	} else if want := st.ID(); f[0].GetStream() != want {
		t.Errorf("granted: f[0].GetStream(): got %d, want %d", f[0].GetStream(), want)
	}
}

func TestDataIsDeliveredInOrderWithTheEndLast(t *testing.T) {
	s := live(t, Config{}, "m")
	st := openStream(t, s, 1)
	sent(t, s)
	var want []byte
	for seq := range uint32(5) {
		f := data(st.ID(), seq+1, 100)
		want = append(want, f.GetData().GetData()...)
		if why := s.receive(encode(t, f)); why != nil {
			t.Fatal(why)
		}
	}
	if why := s.receive(encode(t, end(st.ID(), 6))); why != nil {
		t.Fatal(why)
	}
	<-st.Ready()
	got, e, err := st.Take()
	switch {
	case !bytes.Equal(got, want):
		t.Errorf("st.Take(): got %q, want %q", got, want)
	case e == nil:
		t.Error("e of st.Take(): got nil, want a value")
	case !e.Complete:
		t.Error("e.Complete: got false, want true")
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	}
}

func TestCloseFailsEveryStreamAtOnce(t *testing.T) {
	s := live(t, Config{}, "m")
	a, b := openStream(t, s, 1), openStream(t, s, 1)
	sent(t, s)
	s.Shut(ClosingFor(agentwire.CodeSuperseded, "x"))
	for _, st := range []*Stream{a, b} {
		<-st.Ready()
		if _, _, err := st.Take(); !errors.Is(err, ErrLost) {
			t.Errorf("take: got the error %v, want %v", err, ErrLost)
		}
	}
	if why := s.receive(encode(t, data(a.ID(), 1, 10))); why != nil {
		t.Errorf("a frame behind the closing: %v", why)
	}
	if f := sent(t, s); len(f) != 1 {
		t.Errorf("len(f): got %d, want 1, in %v", len(f), f)
	} else if f[0].GetError().GetCode() != agentwire.CodeSuperseded {
		t.Errorf("f[0].GetError().GetCode(): got %q, want %q", f[0].GetError().GetCode(), agentwire.CodeSuperseded)
	}
	if s.Streams() != 0 {
		t.Errorf("s.Streams(): got %d, want 0", s.Streams())
	} else if s.env.Counts.Slots.Load() != 0 {
		t.Errorf("s.env.Counts.Slots.Load(): got %d, want 0", s.env.Counts.Slots.Load())
	}
}

func TestReleasedStreamLosesItsSlotAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := live(t, Config{}, "m")
		whole, cancelled := openStream(t, s, 1), openStream(t, s, 1)
		sent(t, s)
		whole.Close(false) // its answer was whole; only END is missing
		cancelled.Close(true)
		time.Sleep(11 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if s.Streams() != 1 {
			t.Errorf("streams after one grace: got %d, want 1", s.Streams())
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if s.Streams() != 0 {
			t.Errorf("streams after two: got %d, want 0", s.Streams())
		}
		// A frame that comes then is on a stream that is not open.
		if why := s.receive(encode(t, end(cancelled.ID(), 1))); why == nil {
			t.Error("END behind the grace: why: got no error, want one")
		} else if why.Code != agentwire.CodeProtocolError {
			t.Errorf("END behind the grace: why.Code: got %q, want %q", why.Code, agentwire.CodeProtocolError)
		}
	})
}

func TestABodyIsForgottenOnceItIsSent(t *testing.T) {
	s := liveOld(t, Config{})
	st, err := s.Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if !st.BodyKept() {
		t.Error("before it is sent: got nothing, want the body")
	}
	var o Outbox
	s.Next(&o)
	if len(o.Messages) != 1 || string(o.Messages[0].Data) != "{}" {
		t.Errorf("got %+v, want one message with the body", o.Messages)
	}
	if st.BodyKept() {
		t.Error("once it is sent: got the body, want nothing kept")
	}
	was := o.Messages
	s.Next(&o)
	if was[0].Data != nil || len(o.Messages) != 0 {
		t.Errorf("got %+v and %d messages more, want the outbox to keep nothing", was[0], len(o.Messages))
	}
}

// What routers prefer and what usage says depends on how a provider is reached.
func TestASessionIsOfTheModeOfItsGrant(t *testing.T) {
	for _, want := range []Grant{{}, {External: true}, {External: true, Vendor: true}} {
		s := fresh(Config{}, speakV2())
		why := s.Receive(&Inbound{Kind: KindRegister, Seq: 1, Register: &Register{Node: "node-0001"}})
		if why != nil {
			t.Fatal(why)
		}
		if why := s.Admit(want); why != nil {
			t.Fatal(why)
		}
		if got := s.Identity(); got.External != want.External {
			t.Errorf("external: got %v, want %v", got.External, want.External)
		} else if got.Vendor != want.Vendor {
			t.Errorf("vendor: got %v, want %v", got.Vendor, want.Vendor)
		}
		s.end()
	}
}
