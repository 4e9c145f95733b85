package session_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "svc.internal/services/provider-hub/internal/session"
)

// longLive is a registered v1 session for which answers to nobody count, because the time
// for answers to requests of an earlier connection is over.
func longLive(t testing.TB) *wire {
	t.Helper()
	s := liveOld(t, Config{})
	s.EndStrays()
	return s
}

// strays are an agent's messages on requests of a connection that the agent has lost.
var strays = map[string]string{
	"chunks":  chunk("r-99", `{"choices":[]}`, false),
	"ends":    streamEnd("r-99", ""),
	"answers": answer("r-99", `,"response":{}`),
}

func TestStraysOfAnEarlierConnectionCountForNothingForFiveMinutes(t *testing.T) {
	for name, text := range strays {
		synctest.Test(t, func(t *testing.T) {
			s := liveOld(t, Config{})
			st, id := ask(t, s, true)
			for range 5*60 - 1 { // as ten streams of 20 chunks a second send
				for range 200 {
					tell(t, s, text)
				}
				tell(t, s, `{"type":"heartbeat","payload":{}}`)
				time.Sleep(time.Second) //nolint:forbidigo // of a synctest bubble
			}
			tell(t, s, chunk(id, "{}", true))
			tell(t, s, streamEnd(id, ""))
			switch piece, end, err := st.Take(); {
			case end == nil:
				t.Errorf("%s: the request beside them: end: got nil, want a value (piece is %q)", name, piece)
			case !end.Complete:
				t.Errorf("%s: the request beside them: end.Complete: got false, want true (piece is %q)", name, piece)
			case err != nil:
				t.Errorf("%s: the request beside them: got the error %v, want none (piece is %q)", name, err, piece)
			}
			if got := s.env.Counts.Strays.Load(); got != (5*60-1)*200 {
				t.Errorf("%s: counted in metrics: got %d, want (5*60-1)*200", name, got)
			}
			time.Sleep(2 * time.Second) //nolint:forbidigo // of a synctest bubble
			if n := floods(s, text); n > ChatterBurst {
				t.Errorf("%s: got %d taken five minutes later, want at most %d", name, n, ChatterBurst)
			}
		})
	}
}

func TestStraysBeyondTheirBudgetEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the budget grows with time
		s := liveOld(t, Config{})
		text := chunk("r-99", `"`+strings.Repeat("x", 1<<20)+`"`, false)
		n := 0
		for ; n < 1000 && s.receive([]byte(text)) == nil; n++ {
		}
		if least, most := MaxStrayBytes/len(text), MaxStrayBytes/len(text)+ChatterBurst; n < least || n > most {
			t.Errorf("got %d chunks of 1 MiB taken, want %d to %d", n, least, most)
		}
		// Answers for which there was no room count with their full size.
		s = liveOld(t, Config{})
		for n = 0; n < 1000 && s.discarded([]byte(text[:100]), 1<<20) == nil; n++ {
		}
		if n > 64+ChatterBurst {
			t.Errorf("answers of 1 MiB taken without room: got %d, want at most %d", n, 64+ChatterBurst)
		}
	})
}

// floods sends a message until the session closes, and returns how many messages the
// session took.
func floods(s *wire, text string) int {
	n := 0
	for ; n < 10_000 && s.receive([]byte(text)) == nil; n++ {
	}
	return n
}
