package session

import (
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/address"
	"svc.internal/pkg/clock"
)

func TestRegistrationsOfOneNetworkNeverHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Config{HandshakeRate: 10, HandshakeBurst: 1}.WithDefaults(), &desk{}, clock.System)
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

func TestWhatIsNoKeyTakesNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{HandshakeRate: 0.001, HandshakeBurst: 1, RefuseHold: time.Millisecond})
		for range 20 {
			a := e.oldAgent(t)
			if m := a.register("malformed", "node-0001"); m.Type != "error" {
				t.Fatalf("heard %v", m)
			}
		}
		if got := len(e.desk.shown); got != 0 {
			t.Errorf("%d keys were looked up that are none", got)
		}
		a := e.oldAgent(t)
		if m := a.register("good", "node-0001"); m.Payload["success"] != true { // the only turn there is
			t.Errorf("heard %v", m)
		}
	})
}

func TestNetworksBehindATrustedProxyAreToldApart(t *testing.T) {
	proxies, err := address.ParseProxies("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		trusted    []netip.Prefix
		peer, hops string
		want       string
	}{
		"behind a trusted proxy":        {proxies, "10.1.2.3:99", "192.0.2.7", "192.0.2.7"},
		"what the client wrote itself":  {proxies, "10.1.2.3:99", "203.0.113.1, 192.0.2.7", "192.0.2.7"},
		"a client that is no proxy":     {proxies, "192.0.2.9:99", "203.0.113.1", "192.0.2.9"},
		"no proxy is trusted":           {nil, "10.1.2.3:99", "192.0.2.7", "10.1.2.3"},
		"a trusted proxy says nothing":  {proxies, "10.1.2.3:99", "", "10.1.2.3"},
		"IPv4 that is written as IPv6":  {proxies, "[::ffff:10.1.2.3]:99", "::ffff:192.0.2.7", "192.0.2.7"},
		"a hop that is no address":      {proxies, "10.1.2.3:99", "192.0.2.7, unknown", "10.1.2.3"},
		"a zone in the peer's address":  {nil, "[fe80::1%eth0]:99", "", "fe80::1"},
		"a peer without an IP, a pipe":  {proxies, "pipe", "192.0.2.7", "invalid IP"},
		"two proxies, both are trusted": {proxies, "10.1.2.3:99", "192.0.2.7, 10.9.9.9", "192.0.2.7"},
	} {
		h := newHouse(Config{}.WithDefaults(), Deps{Registrar: &desk{}, Clock: clock.System, Counts: &Counts{}})
		s := &Server{cfg: Config{MaxSockets: 1, Addresses: address.New(c.trusted)}, house: h, sessions: map[*Session]struct{}{}}
		r := httptest.NewRequest("GET", "/ws", nil)
		r.RemoteAddr = c.peer
		if c.hops != "" {
			r.Header.Set("X-Forwarded-For", c.hops)
		}
		session, ok := s.enter(r, speakV2)
		if !ok || session.from.String() != c.want {
			t.Errorf("%s: got %v, want %s", name, session.from, c.want)
		}
	}
}
