package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	. "svc.internal/services/provider-hub/internal/session"
)

func TestLargeMessagesThatAnswerNothingAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // tokens come with time
		s := longLive(t)
		_, id := ask(t, s, false)
		news := `{"type":"heartbeat","payload":{"x":"` + strings.Repeat("y", 1<<20) + `"}}`
		if why := s.receive([]byte(news)); why == nil {
			t.Error("a heartbeat of a mebibyte is taken")
		}
		if why := s.discarded([]byte(answer(id, `,"response":{}`)), 100); why != nil {
			t.Errorf("the answer of a request: why: got the error %v, want none", why)
		} else if s.Streams() != 0 {
			t.Errorf("the answer of a request: s.Streams(): got %d, want 0", s.Streams())
		}
		n := 1
		for ; n <= 200 && s.discarded([]byte(answer("none", `,"response":{}`)), 100) == nil; n++ {
		}
		if n < ChatterBurst-1 || n > ChatterBurst+1 {
			t.Errorf("ended at number: got %d, want %d to %d", n, ChatterBurst-1, ChatterBurst+1)
		}
	})
}

func TestWhatAnOldAgentSaysBehindItsRefusalIsNotRead(t *testing.T) {
	s := liveOld(t, Config{})
	s.Shut(ClosingFor(agentwire.CodeProtocolError, "x"))
	if why := s.receive([]byte("{")); why != nil {
		t.Errorf("it was read: %v", why)
	}
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
		for range 3 * ChatterBurst {
			tell(t, s, chunk(id, "{}", false))
		}
		s.Lose("another")
		tell(t, s, streamEnd(id, ""))
		if _, _, _, late := s.Sizes(); late != 1 {
			t.Errorf("remembered: got %d, want 1", late)
		}
		for range MaxLate {
			tell(t, s, chunk("another", "{}", false))
		}
		if _, _, _, late := s.Sizes(); late != 0 {
			t.Errorf("remembered: got %d, want 0", late)
		}
	})
	s := liveOld(t, Config{})
	for range 3 * oldStreams {
		st, _ := ask(t, s, true)
		s.Forget(st)
	}
	if _, _, _, late := s.Sizes(); late != oldStreams {
		t.Errorf("remembered: got %d, want %d", late, oldStreams)
	}
}

func TestFloodOfASocketThatIsNotRegisteredEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // tokens come with time
		for name, text := range map[string]string{
			"chunks": chunk("x", "{}", false), "ends": streamEnd("x", ""), "answers": answer("x", ""),
			"heartbeats": `{"type":"heartbeat","payload":{}}`,
		} {
			s := fresh(Config{}, speakV1())
			n := 1
			for ; n <= 200 && s.receive([]byte(text)) == nil; n++ {
			}
			if n < ChatterBurst || n > ChatterBurst+1 {
				t.Errorf("%s: ended at number: got %d, want %d to %d", name, n, ChatterBurst, ChatterBurst+1)
			}
			s.end()
		}
	})
}

func TestChunksThatDoNotBelongAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // tokens come with time
		for name, stream := range map[string]bool{"of a whole answer": false, "behind the end mark": true} {
			s := liveOld(t, Config{})
			_, id := ask(t, s, stream)
			n := 1
			for ; n <= 200 && s.receive([]byte(chunk(id, "{}", true))) == nil; n++ {
			}
			if n > ChatterBurst+2 {
				t.Errorf("%s: ended at number: got %d, want at most %d", name, n, ChatterBurst+2)
			}
		}
	})
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
		if _, former, _, _ := s.Sizes(); former != 2 {
			t.Errorf("models remembered: got %d, want 2", former)
		}
		list(`"m","n"`)
		if v, _ := s.View(); len(v.Offers) != 2 {
			t.Errorf("len(v.Offers): got %d, want 2, in %+v", len(v.Offers), v.Offers)
		} else if v.Offers[0].InFlight != 1 {
			t.Errorf("v.Offers[0].InFlight: got %d, want 1", v.Offers[0].InFlight)
		}
		if err := s.WarmUp("n"); err != ErrBusy { //nolint:errorlint // as it is
			t.Errorf("warmed again: got %v, want %v", err, ErrBusy)
		}
		tell(t, s, streamEnd(id, ""))
		st.Close(false)
		if v, _ := s.View(); v.Offers[0].InFlight != 0 {
			t.Errorf("offers: got %d, want 0", v.Offers[0].InFlight)
		}
		time.Sleep(WarmupPause) //nolint:forbidigo // of a synctest bubble
		list("")
		if _, former, _, _ := s.Sizes(); former != 0 {
			t.Errorf("models remembered: got %d, want 0", former)
		}
	})
}
