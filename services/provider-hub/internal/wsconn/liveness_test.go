package wsconn

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// at closes when so many seconds have passed, which is never for 0.
func at(seconds int) <-chan time.Time {
	if seconds == 0 {
		return nil
	}
	return time.After(time.Duration(seconds) * time.Second)
}

// asker is a Liveness with a channel on which its timer is heard.
type asker struct {
	*Liveness
	rings chan struct{}
}

func asking(c *Conn, t Timing) asker {
	rings := make(chan struct{}, 1)
	return asker{NewLiveness(c, t, func() { rings <- struct{}{} }), rings}
}

func TestPeerThatGivesNoSignOfLifeIsDead(t *testing.T) {
	timing := Timing{PingInterval: 15 * time.Second, PongTimeout: 5 * time.Second, ProbeTimeout: 2 * time.Second}
	for name, c := range map[string]struct {
		probe, byte, pong int   // at which second
		pings             []int // at which seconds
		dead              int
	}{
		"idle, after two pings":                {pings: []int{15, 20}, dead: 25},
		"one ping that a request asked for":    {probe: 3, pings: []int{3}, dead: 5},
		"a request asks while a pong is due":   {probe: 17, pings: []int{15, 17}, dead: 19},
		"any byte is a sign of life":           {byte: 16, pings: []int{15, 35, 40}, dead: 45},
		"a pong begins the pause anew":         {pong: 16, pings: []int{15, 31, 36}, dead: 41},
		"a byte for a request, and then again": {probe: 3, byte: 4, pings: []int{3, 20, 25}, dead: 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, peer := reading(t, 0)
			conn.out.Conn = conn.out.Conn.(script).Conn // the peer is read, not a script
			go func() { _ = conn.Read(&ear{}) }()
			began := time.Now()
			seconds := func() int { return int(time.Since(began) / time.Second) }
			heard := make(chan []int)
			go func() {
				var pings []int
				for {
					if _, err := io.ReadFull(peer, make([]byte, 2)); err != nil {
						heard <- pings
						return
					}
					pings = append(pings, seconds())
				}
			}()
			l := asking(conn, timing)
			defer l.Stop()
			probe, byteAt, pong := at(c.probe), at(c.byte), at(c.pong)
			for dead := false; !dead; {
				select {
				case <-probe:
					l.Batch(false, true)
				case <-byteAt:
					_, _ = peer.Write([]byte{finBit | opText})
				case <-pong:
					_, _ = peer.Write(masked(finBit|opPong, nil))
					l.Batch(true, false)
				case <-l.rings:
					if dead = l.Rings(); !dead {
						l.Batch(false, false)
					}
				}
				if err := conn.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if got := seconds(); got != c.dead {
				t.Errorf("%s: dead: got %d s, want %d", name, got, c.dead)
			}
			conn.Close()
			if got := <-heard; !slices.Equal(got, c.pings) {
				t.Errorf("%s: pings: got %v s, want %v", name, got, c.pings)
			}
		})
	}
}

func TestPingsThatRequestsAskForAreASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := reading(t, 0)
		l := asking(conn, Timing{PingInterval: time.Hour, PongTimeout: time.Minute, ProbeTimeout: time.Minute})
		defer l.Stop()
		kept := func() int { return len(conn.out.buf) / 2 }
		l.Batch(false, true)
		l.Batch(true, true) // the first is answered, and the second is soon behind it
		if got := kept(); got != 1 {
			t.Errorf("got %d pings at once, want 1", got)
		}
		began := time.Now()
		<-l.rings
		if l.Rings() {
			t.Error("a peer that answered is dead")
		}
		l.Batch(false, false)
		if took := time.Since(began); kept() != 2 || took != minPing {
			t.Errorf("got %d pings after %v, want 2 after %v", kept(), took, minPing)
		}
		peer.Close()
	})
}

func TestPongOfASlowLinkHasTheTimeOfWhatWasSentBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := reading(t, 0)
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		l := asking(conn, Timing{PingInterval: time.Hour, PongTimeout: 5 * time.Second, ProbeTimeout: 2 * time.Second})
		defer l.Stop()
		if err := conn.Message(nil, make([]byte, 3*slowLink), ""); err != nil {
			t.Fatal(err)
		}
		l.Batch(false, true)
		began := time.Now()
		<-l.rings
		if took := time.Since(began); !l.Rings() {
			t.Error("l.Rings(): got false, want true")
		} else if took != 5*time.Second {
			t.Errorf("dead: got %v, want %v", took, 5*time.Second)
		}
		conn.Close()
	})
}

func TestTheRoundTripIsThatOfAPongOfTheOnlyPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := reading(t, 0)
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		l := asking(conn, Timing{PingInterval: time.Hour, PongTimeout: time.Minute, ProbeTimeout: time.Minute})
		defer l.Stop()
		pass := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // of a synctest bubble
		want := func(what string, d time.Duration) {
			t.Helper()
			if got := l.RoundTrip(); got != d {
				t.Errorf("%s: got %v, want %v", what, got, d)
			}
		}
		want("before any pong", 0)
		l.Batch(true, false)
		want("a pong of no ping", 0)
		l.Batch(false, true)
		pass(30 * time.Millisecond)
		l.Batch(true, false)
		want("a pong", 30*time.Millisecond)
		l.Batch(true, false)
		want("the same pong again", 30*time.Millisecond)
		pass(2 * time.Hour)
		l.Rings() // a ping is due
		l.Batch(false, false)
		pass(time.Second)
		l.Batch(false, true) // a request asks for another while the first is awaited
		pass(50 * time.Millisecond)
		l.Batch(true, false)
		want("a pong of one of two pings", 30*time.Millisecond)
		conn.Close()
	})
}

func TestATimerThatWasSetAnewMeanwhileMeansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := reading(t, 0)
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		l := asking(conn, Timing{PingInterval: time.Hour, PongTimeout: time.Minute, ProbeTimeout: time.Minute})
		defer l.Stop()
		l.Batch(false, true) // a request waits for the pong
		if l.Rings() {
			t.Error("a peer is dead before its time: got true, want false")
		}
		<-l.rings
		if !l.Rings() {
			t.Error("a peer that says nothing in time is dead: got false, want true")
		}
		conn.Close()
	})
}
