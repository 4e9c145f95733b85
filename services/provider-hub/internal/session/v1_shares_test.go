package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/ids"
)

func TestOneProviderHasAnEighthOfTheRoomForLargeMessages(t *testing.T) {
	b := newBudget(80)
	p, q := ids.ProviderID{1}, ids.ProviderID{2}
	if !b.take(p, 4) || !b.take(p, 6) || b.take(p, 1) {
		t.Error("a provider does not have an eighth")
	}
	if !b.take(q, 10) {
		t.Error("another has nothing")
	}
	b.give(p, 10)
	if _, kept := b.held[p]; kept || left(b) != 70 {
		t.Errorf("%d bytes are left, %v", left(b), b.held)
	}
	for i := range byte(7) {
		if !b.take(ids.ProviderID{10 + i}, 10) {
			t.Fatal("others have less")
		}
	}
	if b.take(p, 1) {
		t.Error("more is taken than there is")
	}
}

// arriving is an agent of which the hub has got n bytes of a large message.
func arriving(t *testing.T, cfg Config, asked bool, n int) *endpoint {
	t.Helper()
	e := serveSessions(t, cfg)
	a := e.oldAgent(t)
	a.register("good", "node-0001")
	id := "none"
	if asked {
		if _, err := e.desk.session(t).Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		id = a.hears().RequestID
	}
	if _, err := a.ws.NetConn().Write(masked(finBit|opText, []byte(large(id, 8<<20)))[:n]); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return e
}

func TestRoomOfAMessageThatIsThrownAwayIsFreeAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   Config
		asked bool
		bytes int
		free  bool
	}{
		"within its provider's share": {Config{LargeBudget: 64 << 20}, true, 3 << 20, false},
		"beyond its provider's share": {Config{LargeBudget: 16 << 20}, true, 3 << 20, true},
		"less than a mebibyte":        {Config{}, false, 200 << 10, false},
		"more, and nothing was asked": {Config{}, false, 2 << 20, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := arriving(t, c.cfg, c.asked, c.bytes)
			if held := e.server.cfg.LargeBudget - left(e.server.budget); (held == 0) != c.free || held > 8<<20 {
				t.Errorf("%s: %d bytes are held", name, held)
			}
		})
	}
}

func TestLargeMessagesThatAnswerNothingAreCounted(t *testing.T) {
	s := longLive(t)
	_, id := ask(t, s, false)
	news := `{"type":"heartbeat","payload":{"x":"` + strings.Repeat("y", 1<<20) + `"}}`
	if why := s.wire.receive([]byte(news)); why == nil {
		t.Error("a heartbeat of a mebibyte is taken")
	}
	if why := s.wire.discarded([]byte(large(id, 100)), 100); why != nil || s.Streams() != 0 {
		t.Errorf("the answer of a request: %v, %d streams", why, s.Streams())
	}
	n := 1
	for ; n <= 200 && s.wire.discarded([]byte(large("none", 100)), 100) == nil; n++ {
	}
	if n < chatterBurst-1 || n > chatterBurst+1 {
		t.Errorf("ended at number %d", n)
	}
}

func TestMessageThatIsNotAllHereHasItsTime(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"half of a frame":        masked(finBit|opText, bytes.Repeat([]byte(" "), 1000))[:100],
		"a fragment":             masked(opText, []byte("{")),
		"an empty fragment":      masked(opText, nil),
		"fragments with no last": append(masked(opText, []byte("{")), masked(opContinuation, []byte("}"))...),
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{LargeTimeout: 20 * time.Second})
			a := e.oldAgent(t)
			a.register("good", "node-0001")
			began := time.Now()
			if _, err := a.ws.NetConn().Write(bytes); err != nil {
				t.Fatal(err)
			}
			a.ends()
			if age := time.Since(began); age != 20*time.Second {
				t.Errorf("%s: ended after %v", name, age)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{LargeTimeout: 20 * time.Second})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		beat := masked(finBit|opText, []byte(`{"type":"heartbeat","request_id":"h","payload":{}}`))
		for _, part := range [][]byte{beat[:20], beat[20:]} {
			if _, err := a.ws.NetConn().Write(part); err != nil {
				t.Fatal(err)
			}
		}
		a.hears()
		if !a.silent(60 * time.Second) {
			t.Error("a message in time ends its connection later")
		}
	})
}

func TestWhatAnOldAgentSaysBehindItsRefusalIsNotRead(t *testing.T) {
	s := liveOld(t, Config{})
	s.Shut(protocolError("x"))
	if why := s.wire.receive([]byte("{")); why != nil {
		t.Errorf("it was read: %v", why)
	}
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.oldAgent(t)
		a.register("bad", "node-0001")
		if _, err := a.ws.NetConn().Write(masked(finBit|opText, []byte(large("x", 100<<10)))[:90<<10]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if held := e.server.cfg.LargeBudget - left(e.server.budget); held != 0 {
			t.Errorf("%d bytes are held for it", held)
		}
	})
}

func TestAnswersBehindTheTimeOfTheirRequestAreNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{})
		st, id := ask(t, s, true)
		st.Close(true)
		for range 4 {
			time.Sleep(80 * time.Second) //nolint:forbidigo // of a synctest bubble
			tell(t, s, `{"type":"heartbeat","payload":{}}`)
		}
		synctest.Wait()
		if s.Streams() != 0 {
			t.Fatal("the slot is still taken")
		}
		for range 3 * chatterBurst {
			tell(t, s, chunk(id, "{}", false))
		}
		d := s.wire.(*v1)
		d.late["another"] = v1Late
		tell(t, s, streamEnd(id, ""))
		if len(d.late) != 1 {
			t.Errorf("%d are remembered", len(d.late))
		}
		for range v1Late {
			tell(t, s, chunk("another", "{}", false))
		}
		if len(d.late) != 0 {
			t.Errorf("%d are remembered", len(d.late))
		}
	})
	s := liveOld(t, Config{})
	d := s.wire.(*v1)
	for range 3 * v1Streams {
		st, _ := ask(t, s, true)
		s.mu.Lock()
		s.forget(st)
		s.mu.Unlock()
	}
	if len(d.late) != v1Streams {
		t.Errorf("%d are remembered", len(d.late))
	}
}

func TestFloodOfASocketThatIsNotRegisteredEndsIt(t *testing.T) {
	for name, text := range map[string]string{
		"chunks": chunk("x", "{}", false), "ends": streamEnd("x", ""), "answers": answer("x", ""), "heartbeats": `{"type":"heartbeat","payload":{}}`,
	} {
		s := fresh(Config{}, speakV1)
		n := 1
		for ; n <= 200 && s.wire.receive([]byte(text)) == nil; n++ {
		}
		if n < chatterBurst || n > chatterBurst+1 {
			t.Errorf("%s: ended at number %d", name, n)
		}
		s.end()
	}
}

func TestChunksThatDoNotBelongAreCounted(t *testing.T) {
	for name, stream := range map[string]bool{"of a whole answer": false, "behind the end mark": true} {
		s := liveOld(t, Config{})
		_, id := ask(t, s, stream)
		n := 1
		for ; n <= 200 && s.wire.receive([]byte(chunk(id, "{}", true))) == nil; n++ {
		}
		if n > chatterBurst+2 {
			t.Errorf("%s: ended at number %d", name, n)
		}
	}
}

func TestSlotsAndWarmUpsOfAModelThatReturnsAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{}, "m", "n")
		st, id := ask(t, s, true)
		if err := s.WarmUp("n"); err != nil {
			t.Fatal(err)
		}
		list := func(models string) { tell(t, s, `{"type":"heartbeat","payload":{"models":[`+models+`]}}`) }
		list("")
		for i := range 300 {
			list(fmt.Sprintf(`"m%d"`, i))
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // of a synctest bubble
		}
		if len(s.former) != 2 {
			t.Errorf("%d models are remembered", len(s.former))
		}
		list(`"m","n"`)
		if v, _ := s.View(); len(v.Offers) != 2 || v.Offers[0].InFlight != 1 {
			t.Errorf("offers %+v", v.Offers)
		}
		if err := s.WarmUp("n"); err != ErrBusy { //nolint:errorlint // as it is
			t.Errorf("warmed again: %v", err)
		}
		tell(t, s, streamEnd(id, ""))
		st.Close(false)
		if v, _ := s.View(); v.Offers[0].InFlight != 0 {
			t.Errorf("offers %+v", v.Offers)
		}
		time.Sleep(warmupPause) //nolint:forbidigo // of a synctest bubble
		list("")
		if len(s.former) != 0 {
			t.Errorf("%d models are remembered", len(s.former))
		}
	})
}
