package gate

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fakeagent"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
	"svc.internal/services/provider-hub/internal/wsconn"
)

func TestAgentsAreToldToComeBackOverATimeThatGrowsWithThem(t *testing.T) {
	c := Config{}.WithDefaults()
	for agents, over := range map[int]time.Duration{
		1: 5 * time.Millisecond, 100: 500 * time.Millisecond, 4000: 20 * time.Second, 10_000: 20 * time.Second,
	} {
		latest := time.Duration(0)
		for range 1000 {
			after := c.spread(agents)
			if after < minReconnect || after >= minReconnect+over {
				t.Fatalf("one of %d: got %v, want at least %v and less than %v", agents, after, minReconnect, minReconnect+over)
			}
			latest = max(latest, after)
		}
		if latest < over*9/10 {
			t.Errorf("%d agents are all back within: got %v, want at least %v", agents, latest, over*9/10)
		}
	}
}

func TestOldAgentsAreClosedOneByOneForTheRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{CloseRate: 2})
		const n = 20
		type bye struct {
			at     time.Duration
			agent  int
			status int
		}
		byes := make(chan bye, n)
		var began time.Time
		for i := range n {
			a := e.oldAgent(t)
			a.register("good", fmt.Sprintf("node-00%02d", i))
			go func() {
				status := a.ends()
				byes <- bye{time.Since(began), i, status}
			}()
		}
		time.Sleep(3 * time.Second) //nolint:forbidigo // of a synctest bubble
		e.gate.Drain()
		select {
		case b := <-byes:
			t.Fatalf("%+v while the hub drains", b)
		case <-time.After(10 * time.Second):
		}
		if _, err := e.dialOld(t); err == nil {
			t.Error("a hub that drains takes sockets")
		}
		if _, err := e.desk.Session(t).Open(session.Request{Model: "m", Body: []byte("{}")}); err == nil {
			t.Error("a hub that drains opens requests")
		}
		began = time.Now()
		if err := e.gate.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		ordered, last := true, time.Duration(0)
		for i := range n {
			b := <-byes
			switch {
			case b.status != 1012:
				t.Errorf("b.status: got %d, want 1012", b.status)
			case b.at < last:
				t.Errorf("b.at: got %v, want at least %v", b.at, last)
			case i > 0 && b.at-last < 400*time.Millisecond:
				t.Errorf("b.at-last: got %v, want at least %v, where i > 0", b.at-last, 400*time.Millisecond)
			}
			ordered, last = ordered && b.agent == i, b.at
		}
		if ordered {
			t.Error("20 at two a second: ordered: got true, want false")
		} else if last < 9*time.Second || last > 11*time.Second {
			t.Errorf("20 at two a second: the last: got %v, want %v to %v", last, 9*time.Second, 11*time.Second)
		}
	})
}

func TestManyOldAgentsAreClosedWithinTheSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{CloseRate: 1, ReconnectSpread: 4 * time.Second})
		for i := range 20 {
			e.oldAgent(t).register("good", fmt.Sprintf("node-00%02d", i))
		}
		began := time.Now()
		if err := e.gate.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("closing took: got %v, want at most %v", took, 5*time.Second)
		}
	})
}

func TestCloseReturnsOnlyWhenSocketsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.mustDial(t, fakeagent.Options{})
		if err := e.gate.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		<-a.Closed()
		a.Close()
		if e.counts.Sockets.Load() != 0 {
			t.Errorf("e.counts.Sockets.Load(): got %d, want 0", e.counts.Sockets.Load())
		} else if e.desk.Heard().Left != 1 {
			t.Errorf("e.desk.Heard().Left: got %d, want 1", e.desk.Heard().Left)
		}
	})
}

func TestNoOldSocketYoungerThanTwoSecondsIsClosed(t *testing.T) {
	for name, end := range map[string]func(e *endpoint, a *old){
		"a restart": func(e *endpoint, _ *old) { _ = e.gate.Close(context.Background()) },
		"a newer one": func(e *endpoint, _ *old) {
			e.desk.Heard().Joined[0].Shut(&session.CloseReason{Code: agentwire.CodeSuperseded, Message: "x"})
		},
		"a breach":     func(_ *endpoint, a *old) { _, _ = a.ws.NetConn().Write([]byte{0xff, 0xff}) },
		"a wrong word": func(_ *endpoint, a *old) { a.send("[]") },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			began := time.Now()
			a := e.oldAgent(t)
			a.register("good", "node-0001")
			end(e, a)
			a.ends()
			if age := time.Since(began); age < 2*time.Second {
				t.Errorf("%s closes a socket: got %v, want at least %v", name, age, 2*time.Second)
			}
		})
	}
}

func TestSocketsThatAreHeldHaveTheirPingsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hold(t, Config{})
		for _, key := range []string{"good", "bad"} {
			if key == "bad" {
				e.gate.Accept()
			}
			conn, r := e.plainConn(t, "")
			if _, err := conn.Write(masked(finBit|opText, []byte(sessiontest.RegisterText(key, "node-000"+key)))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) //nolint:forbidigo // of a synctest bubble
			if _, err := conn.Write(masked(finBit|opPing, []byte("x"))); err != nil {
				t.Fatal(err)
			}
			for {
				op, _, err := readServerFrame(r)
				if err != nil {
					t.Errorf("key %s: %v", key, err)
				}
				if err != nil || op == opPong {
					break
				}
			}
		}
	})
}

// Both an Error frame and the status tell an agent of v2 why it is closed.
func TestRefusalsOfV2EndWithAStatusOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		conn, r := e.plainConn(t, agentwire.Subprotocol)
		if _, err := conn.Write(masked(finBit|opBinary, []byte{0xff})); err != nil {
			t.Fatal(err)
		}
		opcode, payload, err := readServerFrame(r)
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case opcode != opBinary:
			t.Errorf("opcode: got %d, want %d", opcode, opBinary)
		case !bytes.Contains(payload, []byte(agentwire.CodeProtocolError)):
			t.Errorf("payload: got %q, want %q in it", payload, []byte(agentwire.CodeProtocolError))
		}
		began := time.Now()
		if status := closeFrame(r); status != wsconn.StatusNormal {
			t.Errorf("closed: got %d, want %d", status, wsconn.StatusNormal)
		} else if time.Since(began) != session.LingerHold {
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), session.LingerHold)
		}
	})
}
