package gate

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// large is a whole answer of n bytes.
func large(id string, n int) string {
	return sessiontest.Answer(id, `,"response":{"x":"`+strings.Repeat("y", n)+`"},"latency_ms":1`)
}

func TestOldAgentRegistersServesAndIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		m := a.register("good", strings.Repeat("04", 65))
		switch {
		case m.Type != "ack":
			t.Fatalf(`registered: m.Type: got %q, want "ack"`, m.Type)
		case m.RequestID != "r-1":
			t.Fatalf(`registered: m.RequestID: got %q, want "r-1"`, m.RequestID)
		case m.Payload["success"] != true:
			t.Fatalf(`registered: m.Payload["success"]: got %v, want true`, m.Payload["success"])
		}
		s := e.desk.Session(t)
		v, ok := s.View()
		if !ok || v.Dialect != "v1" || v.Capacity != 50 || !v.TakesWarmups ||
			len(v.NodeID) != 35 || !strings.HasPrefix(v.NodeID, "v1-") ||
			strings.Join(v.Capabilities, " ") != "chat stream logprobs" || v.Offers[0].Capacity != 10 {
			t.Errorf("view %+v", v)
		}
		a.send(`{"type":"heartbeat","request_id":"h-1","payload":{"metrics":{"active_requests":3}}}`)
		switch m := a.hears(); {
		case m.Type != "ack":
			t.Errorf(`a heartbeat: m.Type: got %q, want "ack"`, m.Type)
		case m.RequestID != "h-1":
			t.Errorf(`a heartbeat: m.RequestID: got %q, want "h-1"`, m.RequestID)
		case m.Payload["success"] != true:
			t.Errorf(`a heartbeat: m.Payload["success"]: got %v, want true`, m.Payload["success"])
		}
		body := `{ "model":"m","seed":9007199254740993,"x":"é\u00e9"}`
		st, err := s.Open(session.Request{RequestID: "req", Model: "m", Stream: true, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		m = a.hears()
		switch {
		case m.Type != "inference":
			t.Fatalf(`asked: m.Type: got %q, want "inference"`, m.Type)
		case m.Payload["model_id"] != "m":
			t.Fatalf(`asked: m.Payload["model_id"]: got %v, want "m"`, m.Payload["model_id"])
		case m.Payload["stream"] != true:
			t.Fatalf(`asked: m.Payload["stream"]: got %v, want true`, m.Payload["stream"])
		}
		a.send(sessiontest.Chunk(m.RequestID, "{\"a\":\n1}", false))
		a.send(sessiontest.Chunk(m.RequestID, "null", true))
		a.send(sessiontest.StreamEnd(m.RequestID, ""))
		var got []byte
		for {
			<-st.Ready()
			piece, end, err := st.Take()
			got = append(got, piece...)
			if err != nil {
				t.Fatal(err)
			}
			if end != nil {
				if *end != (session.End{Status: 200, Complete: true}) {
					t.Errorf("end: got %+v, want %+v", *end, session.End{Status: 200, Complete: true})
				}
				break
			}
		}
		if string(got) != "data: {\"a\": 1}\n\ndata: [DONE]\n\n" {
			t.Errorf("got %q, want %q", string(got), "data: {\"a\": 1}\n\ndata: [DONE]\n\n")
		}
	})
}

func TestLargeMessagesShareABudgetAndOnlyTheirRequestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{LargeBudget: 16 << 20}) // 2 MiB for each provider
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		s := e.desk.Session(t)
		request := func(stream bool) (*session.Stream, string) {
			st, err := s.Open(session.Request{RequestID: "r", Model: "m", Stream: stream, Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			return st, a.hears().RequestID
		}
		fits, fitsID := request(false)
		a.send(large(fitsID, 1<<20))
		<-fits.Ready()
		switch got, end, err := fits.Take(); {
		case len(got) < 1<<20:
			t.Errorf("one that fits: len(got): got %d, want at least 1<<20", len(got))
		case end == nil:
			t.Error("one that fits: end: got nil, want a value")
		case !end.Complete:
			t.Error("one that fits: end.Complete: got false, want true")
		case err != nil:
			t.Errorf("one that fits: got the error %v, want none", err)
		}
		much, muchID := request(false)
		beside, besideID := request(true)
		a.send(large(muchID, 3<<20))
		a.send(sessiontest.Chunk(besideID, "{}", true))
		a.send(sessiontest.StreamEnd(besideID, ""))
		<-much.Ready()
		if _, _, err := much.Take(); !errors.Is(err, session.ErrNoRoom) {
			t.Errorf("one that does not fit: got the error %v, want %v", err, session.ErrNoRoom)
		}
		<-beside.Ready()
		synctest.Wait()
		if _, end, err := beside.Take(); end == nil {
			t.Error("the one beside: end: got nil, want a value")
		} else if err != nil {
			t.Errorf("the one beside: got the error %v, want none", err)
		}
		again, againID := request(false)
		a.send(large(againID, 1<<20))
		<-again.Ready()
		if _, end, err := again.Take(); end == nil {
			t.Error("one: end: got nil, want a value")
		} else if err != nil {
			t.Errorf("one: got the error %v, want none", err)
		}
		synctest.Wait()
		if left := e.gate.large.Left(); left != 16<<20 {
			t.Errorf("%d bytes of the budget are left, %d messages were thrown away: left: got %d, want 16<<20", left,
				e.counts.Conns.Discarded.Load(), left)
		} else if e.counts.Conns.Discarded.Load() != 1 {
			t.Errorf("%d bytes of the budget are left, %d messages were thrown away: e.counts.Conns.Discarded.Load(): got %d, "+
				"want 1", left, e.counts.Conns.Discarded.Load(), e.counts.Conns.Discarded.Load())
		}
	})
}

func TestLargeMessagesThatStallAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{LargeTimeout: 20 * time.Second})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		if _, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		id := a.hears().RequestID
		began := time.Now()
		text := masked(finBit|opText, []byte(large(id, 8<<20)))
		if _, err := a.ws.NetConn().Write(text[:1<<20]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if held := e.gate.cfg.LargeBudget - e.gate.large.Left(); held < 1<<20 || held > 3<<20 {
			t.Errorf("bytes held for 1 MiB of 8: got %d, want 1<<20 to 3<<20", held)
		}
		a.ends()
		synctest.Wait()
		if age := time.Since(began); age < 20*time.Second || age > 22*time.Second {
			t.Errorf("closed: got %v, want %v to %v", age, 20*time.Second, 22*time.Second)
		}
		if left := e.gate.large.Left(); left != e.gate.cfg.LargeBudget {
			t.Errorf("bytes of the budget are left: got %d, want %d", left, e.gate.cfg.LargeBudget)
		}
	})
}

func TestMessagesOfAnOldSessionAreBounded(t *testing.T) {
	thousand := strings.Split(strings.Repeat("m ", 999)+"m", " ")
	many := `["` + strings.Repeat(`m","`, 300) + `m"]`
	nested := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"an answer of 16 MiB and a bit":  {large("x", 16<<20), 1009},
		"a message without an end":       {`{"type":"ack"`, 1008},
		"a list":                         {`[]`, 1008},
		"a heartbeat that is no object":  {`{"type":"heartbeat","payload":[]}`, 1008},
		"a thousand models":              {sessiontest.RegisterText("good", "node-0001", thousand...), 1008},
		"a heartbeat of many more":       {`{"type":"heartbeat","payload":{"models":` + many + `}}`, 1008},
		"an answer nested without bound": {sessiontest.Answer("x", `,"response":`+nested), 1008},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			a := e.oldAgent(t)
			a.register("good", "node-0001")
			go func() { _, _ = a.ws.NetConn().Write(masked(finBit|opText, []byte(c.text))) }()
			if got := a.ends(); got != c.want {
				t.Errorf("%s: closed: got %d, want %d", name, got, c.want)
			}
		})
	}
}

// arriving is an agent of which the hub has got n bytes of a large message.
func arriving(t *testing.T, cfg Config, asked bool, n int) *endpoint {
	t.Helper()
	e := serve(t, cfg)
	a := e.oldAgent(t)
	a.register("good", "node-0001")
	id := "none"
	if asked {
		if _, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte("{}")}); err != nil {
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
			if held := e.gate.cfg.LargeBudget - e.gate.large.Left(); (held == 0) != c.free {
				t.Errorf("%s: bytes held: held == 0: got %t, want %t", name, held == 0, c.free)
			} else if held > 8<<20 {
				t.Errorf("%s: bytes held: got %d, want at most 8<<20", name, held)
			}
		})
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
			e := serve(t, Config{LargeTimeout: 20 * time.Second})
			a := e.oldAgent(t)
			a.register("good", "node-0001")
			began := time.Now()
			if _, err := a.ws.NetConn().Write(bytes); err != nil {
				t.Fatal(err)
			}
			a.ends()
			if age := time.Since(began); age != 20*time.Second {
				t.Errorf("%s: ended after: got %v, want %v", name, age, 20*time.Second)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{LargeTimeout: 20 * time.Second})
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

func TestWhatAnAgentSaysBehindItsRefusalHoldsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		a.register("bad", "node-0001")
		if _, err := a.ws.NetConn().Write(masked(finBit|opText, []byte(large("x", 100<<10)))[:90<<10]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if held := e.gate.cfg.LargeBudget - e.gate.large.Left(); held != 0 {
			t.Errorf("bytes held for it: got %d, want 0", held)
		}
	})
}

func TestSocketKeepsNothingOfMessagesThatAreReadOrSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		synctest.Wait()
		for c := range e.gate.sockets {
			if !reflect.DeepEqual(c.in, session.Inbound{}) {
				t.Errorf("kept of the registration: got %+v, want %+v", c.in, session.Inbound{})
			}
			all := []session.Outbound{{Kind: session.OutWarmUp, Name: "w", Model: "m"}}
			if err := c.sendMessages(all); err != nil {
				t.Errorf("kept of a message that was sent: got the error %v, want none", err)
			} else if !reflect.DeepEqual(all[0], session.Outbound{}) {
				t.Errorf("kept of a message that was sent: all[0]: got %+v, want %+v", all[0], session.Outbound{})
			}
		}
	})
}
