package session_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "svc.internal/services/provider-hub/internal/session"
)

func TestWholeAnswerThatIsNotTakenYetCostsNoStreamItsPlace(t *testing.T) {
	s := liveOld(t, Config{ConnWindow: 64 << 10})
	whole, wholeID := ask(t, s, false)
	stream, streamID := ask(t, s, true)
	tell(t, s, answer(wholeID, `,"response":{"x":"`+strings.Repeat("y", 100<<10)+`"}`))
	tell(t, s, chunk(streamID, `{}`, false))
	if _, _, err := stream.Take(); err != nil {
		t.Errorf("a stream beside a whole answer: %v", err)
	}
	switch got, end, err := whole.Take(); {
	case len(got) < 100<<10:
		t.Errorf("len(got): got %d, want at least 100<<10", len(got))
	case end == nil:
		t.Error("end: got nil, want a value")
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	}
	if held, _ := s.Held(); held != 0 {
		t.Errorf("bytes held: got %d, want 0", held)
	}
}

func TestStatusThatIsNoneOfHTTPIsNotPassedOn(t *testing.T) {
	s := liveOld(t, Config{})
	for _, said := range []string{`"code":-5`, `"code":9999999999`, `"code":1000`} {
		st, id := ask(t, s, true)
		tell(t, s, `{"type":"error","request_id":"`+id+`","payload":{`+said+`,"message":"x"}}`)
		if _, end, _ := st.Take(); end == nil {
			t.Errorf("%s: end: got nil, want a value", said)
		} else if end.Status != 0 {
			t.Errorf("%s: end.Status: got %d, want 0", said, end.Status)
		}
	}
}

func TestSlotThatOutlivesItsRequestIsTold(t *testing.T) {
	s := liveOld(t, Config{})
	d := s.desk
	st, id := ask(t, s, true)
	before := d.Heard().Touched
	st.Close(true)
	if v, _ := s.View(); d.Heard().Touched != before+1 {
		t.Errorf("d.Heard().Touched: got %d, want %d", d.Heard().Touched, before+1)
	} else if v.Offers[0].InFlight != 1 {
		t.Errorf("v.Offers[0].InFlight: got %d, want 1", v.Offers[0].InFlight)
	}
	tell(t, s, streamEnd(id, ""))
	if v, _ := s.View(); d.Heard().Touched != before+2 {
		t.Errorf("d.Heard().Touched: got %d, want %d", d.Heard().Touched, before+2)
	} else if v.Offers[0].InFlight != 0 {
		t.Errorf("v.Offers[0].InFlight: got %d, want 0", v.Offers[0].InFlight)
	}
	// A slot that ends with its request does not outlive it.
	st, id = ask(t, s, true)
	tell(t, s, streamEnd(id, ""))
	st.Close(false)
	if d.Heard().Touched != before+2 {
		t.Errorf("told of a slot that ended with its request")
	}
}

func TestAFullModelThatHasASlotAgainIsToldAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{})
		d := s.desk
		told := func() int {
			return d.Heard().Touched
		}
		type request struct {
			st *Stream
			id string
		}
		var open []request
		fill := func() {
			for n, capacity := s.InFlight("m"); n < capacity; n++ {
				st, id := ask(t, s, true)
				open = append(open, request{st, id})
			}
		}
		end := func() {
			r := open[0]
			open = open[1:]
			tell(t, s, streamEnd(r.id, ""))
			r.st.Close(false)
		}
		fill()
		before := told()
		end()
		end() // the model was not full
		if told() != before+1 {
			t.Errorf("told: got %d, want %d", told(), before+1)
		}
		for range 5 {
			fill()
			end()
		}
		if told() != before+1 {
			t.Errorf("told %d times within a second: all in all: got %d, want %d", told()-before, told(), before+1)
		}
		wait := func() {
			timer := time.NewTimer(FreedInterval + 1)
			<-timer.C
			synctest.Wait()
		}
		wait()
		if told() != before+2 {
			t.Errorf("told %d times when it was over: all in all: got %d, want %d", told()-before, told(), before+2)
		}
		wait()
		if told() != before+2 {
			t.Errorf("told %d times with nothing freed: all in all: got %d, want %d", told()-before, told(), before+2)
		}
	})
}
