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
			t.Errorf("five registrations of another network took %v behind a thousand, want each second turn", took)
		}
		all.Wait()
		if took := time.Since(began); took < 99*time.Second || took > 102*time.Second {
			t.Errorf("all were through after %v, want 10 a second", took)
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.lines) != 0 || len(q.order) != 0 {
			t.Errorf("%d lines are left, %d networks", len(q.lines), len(q.order))
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
		if err := q.turn(t.Context(), netip.Addr{}); err != nil || time.Since(began) > time.Second {
			t.Errorf("waited %v for 1,000 that did not: %v", time.Since(began), err)
		}
	})
}

func TestWhatIsNoKeyTakesNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{HandshakeRate: 0.001, HandshakeBurst: 1, Session: session.Config{RefuseHold: time.Millisecond}})
		for range 20 {
			a := e.oldAgent(t)
			if m := a.register("malformed", "node-0001"); m.Type != "error" {
				t.Fatalf("heard %v", m)
			}
		}
		if got := len(e.desk.Heard().Shown); got != 0 {
			t.Errorf("%d keys were looked up that are none", got)
		}
		a := e.oldAgent(t)
		if m := a.register("good", "node-0001"); m.Payload["success"] != true { // the only turn there is
			t.Errorf("heard %v", m)
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

func TestServerLetsSocketsInAtASteadyRateAndUpToItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{HandshakeRate: 1, HandshakeBurst: 1, MaxSockets: 3})
		began := time.Now()
		var agents []*fakeagent.Agent
		for i := range 3 {
			agents = append(agents, e.mustDial(t, fakeagent.Options{NodeID: "node-000" + string(rune('a'+i))}))
		}
		if took := time.Since(began); took < 1900*time.Millisecond {
			t.Errorf("three handshakes took %v at one a second", took)
		}
		if _, err := e.dial(t, fakeagent.Options{}); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("a fourth socket of three: %v", err)
		}
		if n := e.counts.Sockets.Load(); n != 3 {
			t.Errorf("%d sockets", n)
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
			t.Errorf("then it says %v", m)
		}
	})
}
