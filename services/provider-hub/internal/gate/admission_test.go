package gate

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/address"
	"svc.internal/pkg/clock"
)

func TestAdmissionSendsAwayWhoWasHereJustNowAndThenEverybody(t *testing.T) {
	c := clock.NewManual(time.UnixMilli(1_790_000_000_000))
	d := newAdmission(4, c)
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
	if !d.enter(known) {
		t.Error("a minute after its session: d.enter(known): got false, want true")
	} else if !d.enter(unknown) {
		t.Error("a minute after its session: d.enter(unknown): got false, want true")
	}
	if d.enter(unknown) {
		t.Error("d.enter(unknown): got true, want false")
	} else if d.waiting != 4 {
		t.Errorf("let in and waiting: got %d, want 4", d.waiting)
	}
	d.leave(unknown, false)
	if !d.enter(unknown) {
		t.Error("sent away although one has left")
	}
}

func TestAdmissionRemembersABoundedNumberOfAddresses(t *testing.T) {
	c := clock.NewManual(time.UnixMilli(1_790_000_000_000))
	d := newAdmission(10, c)
	come := func(n int) {
		from := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
		d.enter(from)
		d.admitted(from)
		d.leave(from, true)
	}
	for n := range maxLately + 100 {
		come(n)
	}
	switch {
	case len(d.left) != maxLately:
		t.Errorf("%d addresses, %d live, %d wait: len(d.left): got %d, want %d", len(d.left), len(d.live), d.waiting,
			len(d.left), maxLately)
	case len(d.live) != 0:
		t.Errorf("%d addresses, %d live, %d wait: len(d.live): got %d, want 0", len(d.left), len(d.live), d.waiting,
			len(d.live))
	case d.waiting != 0:
		t.Errorf("%d addresses, %d live, %d wait: d.waiting: got %d, want 0", len(d.left), len(d.live), d.waiting, d.waiting)
	}
	c.Advance(lately)
	come(1 << 20)
	if len(d.left) != 1 {
		t.Errorf("addresses a minute later: got %d, want 1", len(d.left))
	}
}

func TestOneNetworkHoldsAQuarterOfARoomThatIsCrowded(t *testing.T) {
	d := newAdmission(4096, clock.NewManual(time.UnixMilli(1_790_000_000_000)))
	sixty4 := func(net, host byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: net, 15: host})
	}
	for _, c := range []struct {
		name    string
		address func(i int) netip.Addr
		want    int
	}{
		// Agents behind one address dial for the first time, and there is room.
		{"an address", func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) }, 2048},
		{"a /64", func(i int) netip.Addr { return sixty4(1, byte(i)) }, 1024},
	} {
		let := 0
		for i := range 3000 {
			if d.enter(c.address(i)) {
				let++
			}
		}
		if let != c.want {
			t.Errorf("%s holds: got %d, want %d", c.name, let, c.want)
		}
	}
	if !d.enter(sixty4(2, 1)) {
		t.Error("other networks: d.enter(sixty4(2, 1)): got false, want true")
	} else if !d.enter(netip.AddrFrom4([4]byte{10, 0, 0, 2})) {
		t.Error("other networks: d.enter(…): got false, want true")
	}
	if n := len(d.held); n != 4 {
		t.Errorf("networks kept: got %d, want 4", n)
	}
	// Places that are given up are there for others of the network.
	d.leave(sixty4(1, 9), false)
	d.admitted(sixty4(1, 8))
	switch {
	case !d.enter(sixty4(1, 7)):
		t.Error("with two places free again: d.enter(sixty4(1, 7)): got false, want true")
	case !d.enter(sixty4(1, 6)):
		t.Error("with two places free again: d.enter(sixty4(1, 6)): got false, want true")
	case d.enter(sixty4(1, 5)):
		t.Error("with two places free again: d.enter(sixty4(1, 5)): got true, want false")
	}
	for range 1024 {
		d.leave(sixty4(1, 1), false)
	}
	if _, kept := d.held[network(sixty4(1, 1))]; kept {
		t.Error("a network that holds nothing is kept")
	}
	small := newAdmission(60, clock.System)
	for range 60 {
		if !small.enter(sixty4(1, 1)) {
			t.Fatal("a small room is divided")
		}
	}
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
		g := New(Config{Addresses: address.New(c.trusted)}, Deps{Clock: clock.System, Counts: &Counts{}})
		r := httptest.NewRequest("GET", "/ws", nil)
		r.RemoteAddr = c.peer
		if c.hops != "" {
			r.Header.Set("X-Forwarded-For", c.hops)
		}
		socket, ok := g.enter(r, g.v2)
		if !ok || socket.from.String() != c.want {
			t.Errorf("%s: got %v, want %s", name, socket.from, c.want)
		}
	}
}

func TestWaitingSocketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hold(t, Config{MaxWaiting: 3})
		for range 3 {
			e.oldAgent(t)
		}
		if _, err := e.dialOld(t); err == nil {
			t.Error("a fourth of three waits")
		}
		// Those that do not register make room.
		time.Sleep(12 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if n := e.gate.Waiting(); n != 0 {
			t.Errorf("still wait: got %d, want 0", n)
		}
		e.oldAgent(t)
	})
}

func TestRefusedSocketsMakeRoomWhereOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{MaxWaiting: 8})
		var refused []*old
		for i := range 8 {
			a := e.oldAgent(t)
			if m := a.register("bad", fmt.Sprintf("node-000%d", i)); m.Type != "error" {
				t.Fatalf(`heard: got %q, want "error"`, m.Type)
			}
			refused = append(refused, a)
		}
		if _, err := e.dialOld(t); err == nil {
			t.Fatal("a ninth of eight waits")
		}
		time.Sleep(4 * time.Second) //nolint:forbidigo // of a synctest bubble
		good := e.oldAgent(t)
		if m := good.register("good", "node-0009"); m.Payload["success"] != true {
			t.Errorf("heard: got %v, want true", m.Payload["success"])
		}
		early := 0
		for _, a := range refused {
			select {
			case <-a.gone:
				early++
			default:
			}
		}
		if early < 5 { // then it is not crowded any more
			t.Errorf("sockets closed of them: got %d, want at least 5", early)
		}
	})
}
