package session

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fakeagent"
)

func TestIdlePeerThatSaysNothingIsDeadAfterTwoMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		began := time.Now()
		a := e.mustDial(t, fakeagent.Options{NoPongs: true, NoHeartbeats: true})
		if _, after := farewell(t, a, began); after != 25*time.Second {
			t.Errorf("closed after %v, want 15 s + 5 s + 5 s", after)
		}
	})
}

// waits is a request that waits on a session, and asks for pings as attempts do:
// 2 s after it began and every 2 s from then. It returns when the request was
// lost, or after an hour.
func waits(t *testing.T, st *Stream) (after time.Duration) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for range 1800 {
		select {
		case <-tick.C:
			st.Probe()
		case <-st.Ready():
			if _, _, err := st.Take(); !errors.Is(err, ErrLost) {
				t.Errorf("ended with %v", err)
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
			e := serveSessions(t, Config{})
			a := e.mustDial(t, fakeagent.Options{NoPongs: true, NoHeartbeats: true})
			time.Sleep(at) //nolint:forbidigo // of a synctest bubble
			st, err := e.desk.session(t).Open(Request{Model: "m", Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			<-a.Requests()
			if after := waits(t, st); after > 5*time.Second {
				t.Errorf("at %v: found after %v", at, after)
			}
			a.Close()
		})
	}
}

func TestProbeSoonAfterAPingIsPutOffAndNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		conn, r := e.plainConn(t, "")
		if _, err := conn.Write(masked(finBit|opText, []byte(registerText("good", "node-0001")))); err != nil {
			t.Fatal(err)
		}
		pings := make(chan time.Time, 16)
		var writes [][]byte
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
		s := e.desk.session(t)
		probe := func() { s.mu.Lock(); s.probe = true; s.signal(); s.mu.Unlock() }
		began := time.Now()
		probe()
		<-pings
		writes = append(writes, masked(finBit|opPong, nil))
		if _, err := conn.Write(writes[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) //nolint:forbidigo // of a synctest bubble
		probe()
		probe()
		if at := <-pings; at.Sub(began) != minPing {
			t.Errorf("the second ping after %v", at.Sub(began))
		}
		if _, more := <-pings; more || time.Since(began) != minPing+2500*time.Millisecond {
			t.Errorf("more pings %v, closed after %v", more, time.Since(began))
		}
	})
}

func TestBytesOfAnyKindAreASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		conn, r := e.plainConn(t, "")
		if _, err := conn.Write(masked(finBit|opText, []byte(registerText("good", "node-0001")))); err != nil {
			t.Fatal(err)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, r)
		}()
		synctest.Wait()
		st, err := e.desk.session(t).Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")})
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
			t.Errorf("closed after %v, although something came for 60 s", after)
		}
		<-drained
	})
}

func TestPongMayComeBehindWhatWasSentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		conn, r := e.plainConn(t, "")
		if _, err := conn.Write(masked(finBit|opText, []byte(registerText("good", "node-0001")))); err != nil {
			t.Fatal(err)
		}
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, r)
		}()
		synctest.Wait()
		body := `{"x":"` + strings.Repeat("y", 1<<19) + `"}`
		st, err := e.desk.session(t).Open(Request{RequestID: "r", Model: "m", Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		if after := waits(t, st); after < 6500*time.Millisecond || after > 6600*time.Millisecond {
			t.Errorf("closed after %v, want 2 s + 2.5 s + 2 s for half a MiB", after)
		}
		<-drained
	})
}

// A defect in what a message leads to must not leave a connection behind that
// nobody serves.
func TestReaderThatPanicsEndsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		st, err := e.desk.session(t).Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		a.hears()
		e.desk.mu.Lock()
		e.desk.broken = true
		e.desk.mu.Unlock()
		a.send(`{"type":"heartbeat","request_id":"h","payload":{"models":["m","n"]}}`)
		a.ends()
		synctest.Wait()
		if _, _, err := st.Take(); !errors.Is(err, ErrLost) || e.counts.Sockets.Load() != 0 || e.desk.left != 1 {
			t.Errorf("%v, %d sockets, %d left", err, e.counts.Sockets.Load(), e.desk.left)
		}
	})
}
