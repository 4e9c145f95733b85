package session_test

import (
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	. "svc.internal/services/provider-hub/internal/session"
)

// noText stands for an error without a text.
const noText = "the agent reports an error"

func TestErrorsOfAnAgentAreNoStatusOfItsEngine(t *testing.T) {
	s := liveOld(t, Config{})
	for said, want := range map[string]string{
		`"code":400,"message":"invalid inference payload"`: "invalid inference payload",
		`"code":429,"message":"x"`:                         "x",
		`"code":"501","message":"x"`:                       "x",
		`"code":1e99,"message":["x"]`:                      noText,
		`"code":null`:                                      noText,
		``:                                                 noText,
	} {
		st, id := ask(t, s, true)
		tell(t, s, `{"type":"error","request_id":"`+id+`","payload":{`+said+`}}`)
		switch _, end, err := st.Take(); {
		case end == nil:
			t.Errorf("%s: end: got nil, want a value", said)
		case *end != (End{Error: want}):
			t.Errorf("%s: *end: got %+v, want %+v", said, *end, End{Error: want})
		case err != nil:
			t.Errorf("%s: got the error %v, want none", said, err)
		}
	}
	st, id := ask(t, s, false)
	tell(t, s, `{"type":"error","request_id":"`+id+`","payload":7}`)
	if _, end, _ := st.Take(); end == nil {
		t.Error("without a payload: end: got nil, want a value")
	} else if end.Status != 0 {
		t.Errorf("without a payload: end.Status: got %d, want 0", end.Status)
	}
}

func TestEmptyErrorBesideAGoodAnswerIsNone(t *testing.T) {
	s := liveOld(t, Config{})
	st, id := ask(t, s, false)
	tell(t, s, answer(id, `,"response":{"id":"c"},"error":""`))
	piece, end, _ := st.Take()
	switch {
	case string(piece) != `{"id":"c"}`:
		t.Errorf("piece: got %q, want %q", string(piece), `{"id":"c"}`)
	case end == nil:
		t.Error("end: got nil, want a value")
	case *end != (End{Status: 200, Complete: true}):
		t.Errorf("*end: got %+v, want %+v", *end, End{Status: 200, Complete: true})
	}
	st, id = ask(t, s, true)
	tell(t, s, chunk(id, "null", true))
	tell(t, s, streamEnd(id, `,"error":""`))
	if _, end, _ := st.Take(); end == nil {
		t.Error("a stream: end: got nil, want a value")
	} else if *end != (End{Status: 200, Complete: true}) {
		t.Errorf("a stream: *end: got %+v, want %+v", *end, End{Status: 200, Complete: true})
	}
	for _, failure := range []string{`{}`, `"\u0000"`, `false`} {
		st, id = ask(t, s, false)
		tell(t, s, answer(id, `,"response":{},"error":`+failure))
		if _, end, _ := st.Take(); end == nil {
			t.Errorf("%s: end: got nil, want a value", failure)
		} else if end.Complete {
			t.Errorf("%s: end.Complete: got true, want false", failure)
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
		if got := s.desk.Heard().Warmed; len(got) != 1 {
			t.Errorf("%s: told: len(got): got %d, want 1, in %+v", said, len(got), got)
		} else if got[0] != want {
			t.Errorf("%s: told: got[0]: got %+v, want %+v", said, got[0], want)
		}
	}
}

func TestSessionThatEndsWhileItsKeyIsLookedUpTakesNobodysPlace(t *testing.T) {
	s := fresh(Config{}, speakV1())
	d := s.desk
	d.Wait = make(chan struct{})
	if why := s.receive([]byte(registerText("good", "node-0001"))); why != nil {
		t.Fatal(why)
	}
	s.Shut(ClosingFor(agentwire.CodeProtocolError, "x"))
	close(d.Wait)
	s.admission.Wait()
	if len(d.Heard().Joined) != 0 {
		t.Errorf("have joined: len(d.Heard().Joined): got %d, want 0", len(d.Heard().Joined))
	} else if got := s.Identity().Epoch; got != 0 {
		t.Errorf("have joined: s.Identity().Epoch: got %d, want 0", got)
	}
	s.end()
}
