package gate

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fakeagent"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

func TestIdlePeerThatSaysNothingIsDeadAfterTwoMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		began := time.Now()
		a := e.mustDial(t, fakeagent.Options{NoPongs: true, NoHeartbeats: true})
		if _, after := farewell(t, a, began); after != 25*time.Second {
			t.Errorf("closed: got %v, want 15 s + 5 s + 5 s", after)
		}
	})
}

// waits is a request that waits on a session, and asks for pings as attempts do:
// 2 s after it began and every 2 s from then. It returns when the request was
// lost, or after an hour.
func waits(t *testing.T, st *session.Stream) (after time.Duration) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for range 1800 {
		select {
		case <-tick.C:
			st.Probe()
		case <-st.Ready():
			if _, _, err := st.Take(); !errors.Is(err, session.ErrLost) {
				t.Errorf("got the error %v, want %v", err, session.ErrLost)
			}
			return time.Since(began)
		}
	}
	return time.Since(began)
}

func TestDeadPeerIsFoundWithinFiveSecondsWhileARequestWaits(t *testing.T) {
	// The request comes before the idle ping, while its pong is due, and behind
	// its first miss.
	for _, at := range []time.Duration{0, 12900 * time.Millisecond, 14 * time.Second, 17 * time.Second, 19 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			a := e.mustDial(t, fakeagent.Options{NoPongs: true, NoHeartbeats: true})
			time.Sleep(at) //nolint:forbidigo // of a synctest bubble
			st, err := e.desk.Session(t).Open(session.Request{Model: "m", Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			<-a.Requests()
			if after := waits(t, st); after > 5*time.Second {
				t.Errorf("at %v: found: got %v, want at most %v", at, after, 5*time.Second)
			}
			a.Close()
		})
	}
}

func TestProbeSoonAfterAPingIsPutOffAndNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		conn, r := e.plainConn(t, "")
		if _, err := conn.Write(masked(finBit|opText, []byte(sessiontest.RegisterText("good", "node-0001")))); err != nil {
			t.Fatal(err)
		}
		pings := make(chan time.Time, 16)
		go func() {
			for {
				op, _, err := readServerFrame(r)
				if err != nil {
					close(pings)
					return
				}
				if op == opPing {
					pings <- time.Now()
				}
			}
		}()
		synctest.Wait()
		st, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		st.Probe()
		<-pings
		if _, err := conn.Write(masked(finBit|opPong, nil)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) //nolint:forbidigo // of a synctest bubble
		st.Probe()
		st.Probe()
		if at := <-pings; at.Sub(began) != time.Second {
			t.Errorf("the second ping: got %v, want %v", at.Sub(began), time.Second)
		}
		if _, more := <-pings; more {
			t.Error("more pings: more: got true, want false")
		} else if time.Since(began) != time.Second+2500*time.Millisecond {
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), time.Second+2500*time.Millisecond)
		}
	})
}

func TestBytesOfAnyKindAreASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		conn, r := e.plainConn(t, "")
		if _, err := conn.Write(masked(finBit|opText, []byte(sessiontest.RegisterText("good", "node-0001")))); err != nil {
			t.Fatal(err)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, r)
		}()
		synctest.Wait()
		st, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		// An answer on a slow link, in one frame: no pong can come between.
		answer := masked(finBit|opText, []byte(strings.Repeat("x", 1000)))
		go func() {
			for range 30 {
				if _, err := conn.Write(answer[:1]); err != nil {
					return
				}
				answer = answer[1:]
				time.Sleep(2 * time.Second) //nolint:forbidigo // of a synctest bubble
			}
		}()
		if after := waits(t, st); after < 60*time.Second || after > 66*time.Second {
			t.Errorf("closed after something came for 60 s: got %v, want %v to %v", after, 60*time.Second, 66*time.Second)
		}
		<-drained
	})
}

func TestPongMayComeBehindWhatWasSentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		conn, r := e.plainConn(t, "")
		if _, err := conn.Write(masked(finBit|opText, []byte(sessiontest.RegisterText("good", "node-0001")))); err != nil {
			t.Fatal(err)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, r)
		}()
		synctest.Wait()
		body := `{"x":"` + strings.Repeat("y", 1<<19) + `"}`
		st, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		if after := waits(t, st); after < 6500*time.Millisecond || after > 6600*time.Millisecond {
			t.Errorf("closed: got %v, want 2 s + 2.5 s + 2 s for half a MiB", after)
		}
		<-drained
	})
}

func TestSocketThatDoesNotRegisterIsClosedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		began := time.Now()
		a, err := fakeagent.Connect(t.Context(), "ws://hub/ws", fakeagent.Options{NetDial: e.pipes.Dial})
		if err != nil {
			t.Fatal(err)
		}
		code, after := farewell(t, a, began)
		if code != agentwire.CodeRegisterTimeout {
			t.Errorf("closed: got %q, want %q", code, agentwire.CodeRegisterTimeout)
		} else if after < 10*time.Second || after > 12*time.Second {
			t.Errorf("after: got %v, want %v to %v", after, 10*time.Second, 12*time.Second)
		}
	})
}

func TestSessionWithoutHeartbeatsEndsAfterThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		began := time.Now()
		a := e.mustDial(t, fakeagent.Options{NoHeartbeats: true})
		code, after := farewell(t, a, began)
		if code != agentwire.CodeProtocolError {
			t.Errorf("closed: got %q, want %q", code, agentwire.CodeProtocolError)
		} else if after < 30*time.Second || after > 32*time.Second {
			t.Errorf("after: got %v, want %v to %v", after, 30*time.Second, 32*time.Second)
		}
	})
}

func TestSessionWithHeartbeatsAndPongsLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
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

func TestOldAgentMayBeSilentForNinetyFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		time.Sleep(90 * time.Second) //nolint:forbidigo // of a synctest bubble
		a.send(`{"type":"heartbeat","request_id":"h","payload":{}}`)
		a.hears()
		began := time.Now()
		if m := a.hears(); m.Type != "error" {
			t.Errorf(`m.Type: got %q, want "error"`, m.Type)
		} else if time.Since(began) != 95*time.Second {
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), 95*time.Second)
		}
		a.ends()
	})
}
