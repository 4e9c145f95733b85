package session

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRegistrationThatCannotBeReadIsRefusedAsAnyOther(t *testing.T) {
	padded := func(n int) string {
		return strings.Replace(registerText("good", "node-0001"), `"token"`, `"signature_hint":"`+strings.Repeat("x", n)+`","token"`, 1)
	}
	for name, c := range map[string]struct {
		text, says string
		status     int
	}{
		"models that are no list": {`{"type":"register","request_id":"r-1","payload":{"node_id":"node-0001","token":"good","models":"m"}}`, "models", 1008},
		"without a payload":       {`{"type":"register","request_id":"r-1"}`, "registration", 1008},
		"no object":               {`["register"]`, "cannot be read", 1008},
		"cut off":                 {registerText("good", "node-0001")[:50], "cannot be read", 1008},
		"too large":               {padded(v1Anonymous), "131072 bytes", 1009},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{})
			began := time.Now()
			a := e.oldAgent(t)
			go func() { _, _ = a.ws.NetConn().Write(masked(finBit|opText, []byte(c.text))) }()
			m := a.hears()
			if text, _ := m.Payload["message"].(string); m.Type != "error" || m.Payload["code"] != 400.0 || !strings.Contains(text, c.says) {
				t.Errorf("%s: heard %v", name, m)
			}
			if status := a.ends(); status != c.status || time.Since(began) < 30*time.Second {
				t.Errorf("%s: closed with %d after %v", name, status, time.Since(began))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.oldAgent(t)
		a.send(padded(100 << 10))
		if m := a.hears(); m.Payload["success"] != true {
			t.Errorf("one of 100 KiB: %v", m)
		}
		synctest.Wait()
		if left := left(e.server.budget); left != e.server.cfg.LargeBudget {
			t.Errorf("%d bytes are left", left)
		}
		// On the live connection too.
		a.send(`{"type":"register","request_id":"r-2","payload":{"models":{}}}`)
		if m := a.hears(); m.Type != "error" || m.RequestID != "r-2" {
			t.Errorf("heard %v", m)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{LargeBudget: 1 << 10})
		a := e.oldAgent(t)
		a.send(padded(100 << 10))
		if m := a.hears(); m.Payload["code"] != 503.0 {
			t.Errorf("without room for it: %v", m)
		}
	})
}

func TestErrorsOfAnAgentAreNoStatusOfItsEngine(t *testing.T) {
	s := liveOld(t, Config{})
	for said, want := range map[string]string{
		`"code":400,"message":"invalid inference payload"`: "invalid inference payload",
		`"code":429,"message":"x"`:                         "x",
		`"code":"501","message":"x"`:                       "x",
		`"code":1e99,"message":["x"]`:                      v1Failure,
		`"code":null`:                                      v1Failure,
		``:                                                 v1Failure,
	} {
		st, id := ask(t, s, true)
		tell(t, s, `{"type":"error","request_id":"`+id+`","payload":{`+said+`}}`)
		if _, end, err := st.Take(); end == nil || *end != (End{Error: want}) || err != nil {
			t.Errorf("%s: %+v, %v", said, end, err)
		}
	}
	st, id := ask(t, s, false)
	tell(t, s, `{"type":"error","request_id":"`+id+`","payload":7}`)
	if _, end, _ := st.Take(); end == nil || end.Status != 0 {
		t.Errorf("without a payload: %+v", end)
	}
}

func TestEmptyErrorBesideAGoodAnswerIsNone(t *testing.T) {
	s := liveOld(t, Config{})
	st, id := ask(t, s, false)
	tell(t, s, answer(id, `,"response":{"id":"c"},"error":""`))
	if piece, end, _ := st.Take(); string(piece) != `{"id":"c"}` || end == nil || *end != (End{Status: 200, Complete: true}) {
		t.Errorf("%q, %+v", piece, end)
	}
	st, id = ask(t, s, true)
	tell(t, s, chunk(id, "null", true))
	tell(t, s, streamEnd(id, `,"error":""`))
	if _, end, _ := st.Take(); end == nil || *end != (End{Status: 200, Complete: true}) {
		t.Errorf("a stream: %+v", end)
	}
	for _, failure := range []string{`{}`, `"\u0000"`, `false`} {
		st, id = ask(t, s, false)
		tell(t, s, answer(id, `,"response":{},"error":`+failure))
		if _, end, _ := st.Take(); end == nil || end.Complete {
			t.Errorf("%s: %+v", failure, end)
		}
	}
}

func TestNothingInTheAnswerToAWarmUpIsWorthAConnection(t *testing.T) {
	for said, want := range map[string]Warmed{
		`,"success":true,"load_time_ms":1500`:           {Model: "m", Success: true, LoadTime: 1500 * time.Millisecond},
		`,"success":true,"load_time_ms":"soon"`:         {Model: "m", Success: true},
		`,"success":"yes","error":{"code":1}`:           {Model: "m"},
		`,"success":1,"load_time_ms":-1e99,"error":"x"`: {Model: "m", Error: "x"},
		``: {Model: "m"},
	} {
		s := liveOld(t, Config{})
		if err := s.WarmUp("m"); err != nil {
			t.Fatal(err)
		}
		tell(t, s, answer("warmup-1", said))
		if got := s.house.registrar.(*desk).warmed; len(got) != 1 || got[0] != want {
			t.Errorf("%s: told %+v", said, got)
		}
	}
}

func TestSessionThatEndsWhileItsKeyIsLookedUpTakesNobodysPlace(t *testing.T) {
	s := fresh(Config{}, speakV1)
	d := s.house.registrar.(*desk)
	d.wait = make(chan struct{})
	if why := s.wire.receive([]byte(registerText("good", "node-0001"))); why != nil {
		t.Fatal(why)
	}
	s.Shut(protocolError("x"))
	close(d.wait)
	s.admission.Wait()
	if len(d.joined) != 0 || s.Identity().Epoch != 0 {
		t.Errorf("%d have joined", len(d.joined))
	}
	s.end()
}
