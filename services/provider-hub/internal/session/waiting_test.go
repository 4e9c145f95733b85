package session

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
)

func TestSocketsAreHeldUntilTheHubAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := holdSessions(t, Config{})
		a := e.oldAgent(t)
		a.send(registerText("good", "node-0001"))
		if !a.silent(5 * time.Minute) {
			t.Fatal("a hub that does not run yet says something")
		}
		e.server.Accept()
		if m := a.hears(); m.Payload["success"] != true {
			t.Errorf("then it says %v", m)
		}
	})
}

func TestSocketsThatAreHeldHaveTheirPingsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := holdSessions(t, Config{})
		for _, key := range []string{"good", "bad"} {
			if key == "bad" {
				e.server.Accept()
			}
			conn, r := e.plainConn(t, "")
			if _, err := conn.Write(masked(finBit|opText, []byte(registerText(key, "node-000"+key)))); err != nil {
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

func TestRegistrationsBeyondTheRateAreDelayedAndNobodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{HandshakeRate: 2, HandshakeBurst: 1})
		began := time.Now()
		var agents []*old
		for i := range 9 {
			a := e.oldAgent(t)
			a.send(registerText("good", fmt.Sprintf("node-000%d", i)))
			agents = append(agents, a)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the handshakes took %v", took)
		}
		for _, a := range agents {
			if m := a.hears(); m.Payload["success"] != true {
				t.Errorf("heard %v", m)
			}
		}
		if took := time.Since(began); took < 3900*time.Millisecond || took > 5*time.Second {
			t.Errorf("nine registrations took %v at two a second", took)
		}
	})
}

func TestDoorSendsAwayWhoWasHereJustNowAndThenEverybody(t *testing.T) {
	c := clock.NewManual(time.UnixMilli(1_790_000_000_000))
	d := newDoor(4, c)
	known, unknown := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	d.enter(known)
	d.admitted(known) // it is live
	d.enter(unknown)
	if !d.enter(known) {
		t.Error("sent away although there is room")
	}
	if d.enter(known) {
		t.Error("let in at half of the room, with a live session")
	}
	d.leave(known, true)
	if d.enter(known) {
		t.Error("let in at half of the room, just after its session")
	}
	c.Advance(time.Minute)
	if !d.enter(known) || !d.enter(unknown) {
		t.Error("sent away although it was not here lately")
	}
	if d.enter(unknown) || d.waiting != 4 {
		t.Errorf("let in where %d of 4 wait", d.waiting)
	}
	d.leave(unknown, false)
	if !d.enter(unknown) {
		t.Error("sent away although one has left")
	}
}

func TestDoorRemembersABoundedNumberOfAddresses(t *testing.T) {
	c := clock.NewManual(time.UnixMilli(1_790_000_000_000))
	d := newDoor(10, c)
	come := func(n int) {
		from := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
		d.enter(from)
		d.admitted(from)
		d.leave(from, true)
	}
	for n := range maxLately + 100 {
		come(n)
	}
	if len(d.left) != maxLately || len(d.live) != 0 || d.waiting != 0 {
		t.Errorf("%d addresses, %d live, %d wait", len(d.left), len(d.live), d.waiting)
	}
	c.Advance(lately)
	come(1 << 20)
	if len(d.left) != 1 {
		t.Errorf("%d addresses a minute later", len(d.left))
	}
}

func TestWaitingSocketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := holdSessions(t, Config{MaxWaiting: 3})
		for range 3 {
			e.oldAgent(t)
		}
		if _, err := e.dialOld(t); err == nil {
			t.Error("a fourth of three waits")
		}
		// Those that do not register make room.
		time.Sleep(12 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if n := e.server.Waiting(); n != 0 {
			t.Errorf("%d still wait", n)
		}
		e.oldAgent(t)
	})
}

func TestOldAgentsAreClosedOneByOneForTheRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{CloseRate: 2})
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
		e.server.Drain()
		select {
		case b := <-byes:
			t.Fatalf("%+v while the hub drains", b)
		case <-time.After(10 * time.Second):
		}
		if _, err := e.dialOld(t); err == nil {
			t.Error("a hub that drains takes sockets")
		}
		if _, err := e.desk.session(t).Open(Request{Model: "m", Body: []byte("{}")}); err == nil {
			t.Error("a hub that drains opens requests")
		}
		began = time.Now()
		if err := e.server.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		ordered, last := true, time.Duration(0)
		for i := range n {
			b := <-byes
			if b.status != 1012 || b.at < last || i > 0 && b.at-last < 400*time.Millisecond {
				t.Errorf("%+v behind %v", b, last)
			}
			ordered, last = ordered && b.agent == i, b.at
		}
		if ordered || last < 9*time.Second || last > 11*time.Second {
			t.Errorf("20 at two a second: the last after %v, in order %v", last, ordered)
		}
	})
}

func TestManyOldAgentsAreClosedWithinTheSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{CloseRate: 1, ReconnectSpread: 4 * time.Second})
		for i := range 20 {
			e.oldAgent(t).register("good", fmt.Sprintf("node-00%02d", i))
		}
		began := time.Now()
		if err := e.server.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("closing took %v", took)
		}
	})
}

func TestNoOldSocketYoungerThanTwoSecondsIsClosed(t *testing.T) {
	for name, end := range map[string]func(e *endpoint, a *old){
		"a restart": func(e *endpoint, _ *old) { _ = e.server.Close(context.Background()) },
		"a newer one": func(e *endpoint, _ *old) {
			e.desk.joined[0].Shut(closing(CodeSuperseded, "x"))
		},
		"a breach":     func(_ *endpoint, a *old) { _, _ = a.ws.NetConn().Write([]byte{0xff, 0xff}) },
		"a wrong word": func(_ *endpoint, a *old) { a.send("[]") },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{})
			began := time.Now()
			a := e.oldAgent(t)
			a.register("good", "node-0001")
			end(e, a)
			a.ends()
			if age := time.Since(began); age < 2*time.Second {
				t.Errorf("%s closes a socket of %v", name, age)
			}
		})
	}
}

func TestRegistrationThatWaitsWhenTheHubDrainsIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := holdSessions(t, Config{})
		a := e.oldAgent(t)
		a.send(registerText("good", "node-0001"))
		v2 := make(chan error, 1)
		go func() {
			_, err := e.dial(t, fakeagent.Options{})
			v2 <- err
		}()
		time.Sleep(3 * time.Second) //nolint:forbidigo // of a synctest bubble
		e.server.Drain()
		if err := <-v2; err == nil || !strings.Contains(err.Error(), CodeShuttingDown) {
			t.Errorf("an agent of v2 that waits hears %v", err)
		}
		e.server.Accept()
		if !a.silent(time.Minute) {
			t.Error("a hub that drains registers")
		}
		if err := e.server.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if status := a.ends(); status != 1012 || e.desk.epoch != 0 {
			t.Errorf("closed with %d, %d registered", status, e.desk.epoch)
		}
	})
}

func TestRegistrationThatIsLookedUpWhileTheHubDrainsIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		e.desk.wait = make(chan struct{})
		a := e.oldAgent(t)
		a.send(registerText("good", "node-0001"))
		synctest.Wait()
		e.server.Drain()
		close(e.desk.wait)
		if !a.silent(time.Minute) || len(e.desk.joined) > 0 {
			t.Error("a hub that drains registers")
		}
	})
}

func TestFramesAreForgottenOnceTheyAreSent(t *testing.T) {
	s := liveOld(t, Config{})
	st, _ := s.Open(Request{RequestID: "r", Model: "m", Body: []byte("{}")})
	out := &batchConn{Conn: discardConn{}}
	out.batch()
	c := &socket{session: s, out: out, buffers: &sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}}
	var o outbox
	s.next(&o)
	if err := c.sendFrames(o.frames); err != nil || len(o.frames) != 1 || o.frames[0] != nil || st.request.Body != nil {
		t.Errorf("%v is kept, %v", o.frames, err)
	}
}
