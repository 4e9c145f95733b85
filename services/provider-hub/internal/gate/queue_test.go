package gate

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
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

func TestRegistrationsOfOneNetworkNeverHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Config{HandshakeRate: 10, HandshakeBurst: 1}.WithDefaults(), &sessiontest.Registrar{}, clock.System)
		q.open()
		flood, other := network(netip.MustParseAddr("2001:db8::1")), network(netip.MustParseAddr("192.0.2.1"))
		if flood != network(netip.MustParseAddr("2001:db8::ffff")) {
			t.Fatal("addresses of one /64 are two networks")
		}
		var all sync.WaitGroup
		turn := func(from netip.Addr) {
			if err := q.turn(t.Context(), from); err != nil {
				t.Error(err)
			}
		}
		for range 1000 {
			all.Go(func() { turn(flood) })
		}
		synctest.Wait()
		began := time.Now()
		for range 5 {
			turn(other)
		}
		if took := time.Since(began); took > 1200*time.Millisecond {
			t.Errorf("five registrations of another network took: got %v behind a thousand, want each second turn", took)
		}
		all.Wait()
		if took := time.Since(began); took < 99*time.Second || took > 102*time.Second {
			t.Errorf("all were through after: got %v, want 10 a second", took)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.lines) != 0 {
			t.Errorf("%d lines are left, %d networks: len(q.lines): got %d, want 0", len(q.lines), len(q.order), len(q.lines))
		} else if len(q.order) != 0 {
			t.Errorf("%d lines are left, %d networks: len(q.order): got %d, want 0", len(q.lines), len(q.order), len(q.order))
		}
	})
}

func TestRegistrationsThatGoAwayCostTheOthersNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Config{HandshakeRate: 1, HandshakeBurst: 1}.WithDefaults(), &sessiontest.Registrar{}, clock.System)
		q.open()
		if err := q.turn(t.Context(), netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 1000 {
			if q.turn(gone, netip.Addr{}) == nil {
				t.Fatal("one that is gone has its turn")
			}
		}
		began := time.Now()
		if err := q.turn(t.Context(), netip.Addr{}); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if time.Since(began) > time.Second {
			t.Errorf("waited: got %v, want at most %v", time.Since(began), time.Second)
		}
	})
}

func TestWhatIsNoKeyTakesNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{HandshakeRate: 0.001, HandshakeBurst: 1, Session: session.Config{RefuseHold: time.Millisecond}})
		for range 20 {
			a := e.oldAgent(t)
			if m := a.register("malformed", "node-0001"); m.Type != "error" {
				t.Fatalf(`heard: got %q, want "error"`, m.Type)
			}
		}
		if got := len(e.desk.Heard().Shown); got != 0 {
			t.Errorf("keys looked up that are none: got %d, want 0", got)
		}
		a := e.oldAgent(t)
		if m := a.register("good", "node-0001"); m.Payload["success"] != true { // the only turn there is
			t.Errorf("heard: got %v, want true", m.Payload["success"])
		}
	})
}

func TestRegistrationsBeyondTheRateAreDelayedAndNobodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{HandshakeRate: 2, HandshakeBurst: 1})
		began := time.Now()
		var agents []*old
		for i := range 9 {
			a := e.oldAgent(t)
			a.send(sessiontest.RegisterText("good", fmt.Sprintf("node-000%d", i)))
			agents = append(agents, a)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the handshakes took: got %v, want at most %v", took, time.Second)
		}
		for _, a := range agents {
			if m := a.hears(); m.Payload["success"] != true {
				t.Errorf("heard: got %v, want true", m.Payload["success"])
			}
		}
		if took := time.Since(began); took < 3900*time.Millisecond || took > 5*time.Second {
			t.Errorf("nine registrations took: got %v, want %v to %v", took, 3900*time.Millisecond, 5*time.Second)
		}
	})
}

func TestServerLetsSocketsInAtASteadyRateAndUpToItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{HandshakeRate: 1, HandshakeBurst: 1, MaxSockets: 3})
		began := time.Now()
		var agents []*fakeagent.Agent
		for i := range 3 {
			agents = append(agents, e.mustDial(t, fakeagent.Options{NodeID: "node-000" + string(rune('a'+i))}))
		}
		if took := time.Since(began); took < 1900*time.Millisecond {
			t.Errorf("three handshakes took: got %v, want at least %v", took, 1900*time.Millisecond)
		}
		if _, err := e.dial(t, fakeagent.Options{}); err == nil {
			t.Error("a fourth socket of three: got no error, want one")
		} else if !strings.Contains(err.Error(), "503") {
			t.Errorf(`a fourth socket of three: got the error %q, want "503" in it`, err)
		}
		if n := e.counts.Sockets.Load(); n != 3 {
			t.Errorf("sockets: got %d, want 3", n)
		}
		for _, a := range agents {
			a.Close()
		}
	})
}

func TestSocketsAreHeldUntilTheHubAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hold(t, Config{})
		a := e.oldAgent(t)
		a.send(sessiontest.RegisterText("good", "node-0001"))
		if !a.silent(5 * time.Minute) {
			t.Fatal("a hub that does not run yet says something")
		}
		e.gate.Accept()
		if m := a.hears(); m.Payload["success"] != true {
			t.Errorf("then: got %v, want true", m.Payload["success"])
		}
	})
}
