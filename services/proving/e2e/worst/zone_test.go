//go:build rehearsal

package worst

import (
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// balancer stands before the hubs as the load balancer of a cluster does: each connection
// goes to a hub that takes it.
type balancer struct {
	lis  net.Listener
	hubs []string
	wg   sync.WaitGroup

	mu    sync.Mutex
	next  int
	conns []net.Conn
}

// balance starts a balancer before hubs, whose addresses are ws://host:port, and ends it with the test.
func balance(t *testing.T, hubs []string) *balancer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{lis: lis}
	for _, hub := range hubs {
		b.hubs = append(b.hubs, strings.TrimPrefix(hub, "ws://"))
	}
	b.wg.Go(b.accept)
	t.Cleanup(func() {
		_ = lis.Close()
		b.mu.Lock()
		for _, conn := range b.conns {
			_ = conn.Close()
		}
		b.mu.Unlock()
		b.wg.Wait()
	})
	return b
}

func (b *balancer) url() string { return "ws://" + b.lis.Addr().String() }

func (b *balancer) accept() {
	for {
		conn, err := b.lis.Accept()
		if err != nil {
			return
		}
		b.wg.Go(func() { b.pass(conn) })
	}
}

// pass joins a connection to a hub that takes it, and closes both when one ends.
func (b *balancer) pass(conn net.Conn) {
	defer conn.Close()
	b.mu.Lock()
	first := b.next
	b.next++
	b.mu.Unlock()
	for i := range b.hubs {
		hub, err := net.DialTimeout("tcp", b.hubs[(first+i)%len(b.hubs)], time.Second)
		if err != nil {
			continue
		}
		defer hub.Close()
		b.mu.Lock()
		b.conns = append(b.conns, conn, hub)
		b.mu.Unlock()
		ended := make(chan struct{}, 2)
		for _, way := range [][2]net.Conn{{conn, hub}, {hub, conn}} {
			b.wg.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				ended <- struct{}{}
			})
		}
		<-ended
		return
	}
}

// zones runs two replicas of each service but the signer, of which there is one.
func zones(c *fleet.Config) {
	for _, service := range fleet.Services() {
		if service != fleet.Signer {
			c.Replicas[service] = 2
		}
	}
}

// zone are the processes of a zone: the replica with its number of each service, and one NATS
// server of three. PostgreSQL is elsewhere and survives; its own loss is rehearsed apart.
func (a *audited) zone(number int) []string {
	return slices.DeleteFunc(a.fleet.Names(), func(name string) bool {
		return fleet.Program(name) == fleet.Postgres || !strings.HasSuffix(name, "-"+strconv.Itoa(number))
	})
}

// All processes of a zone are killed at once under load, among them the NATS server that leads USAGE
// where it is in one of the two zones with services. The other zone serves, and the books are sound
// when the zone is back.
func TestTheLossOfAZoneCostsNoMoney(t *testing.T) {
	m := trial.StartFleet(t, soon, copies, zones)
	front := balance(t, m.WSURLs())
	a := audit(t, m, front.url(), front.url(), front.url())
	a.settlesMore(t, "requests are settled", 100)
	a.whole(t)

	number := 1
	if strings.HasSuffix(a.leader(t), "-2") {
		number = 2
	}
	lost := a.zone(number)
	if len(lost) < len(fleet.Services()) {
		t.Fatalf("processes of the zone: got %v, want one of each service", lost)
	}
	t.Logf("the zone has %s", strings.Join(lost, ", "))
	began := time.Now()
	var killed sync.WaitGroup
	for _, name := range lost {
		killed.Go(func() {
			if err := a.fleet.Kill(name); err != nil {
				t.Error(err)
			}
		})
	}
	killed.Wait()
	a.answersMore(t, "the other zone answers", 200, began)
	answered, failed, first, last := a.since(began)
	t.Logf("the first call that was answered was sent %v after the loss, and the last that failed %v after; %d were "+
		"answered and %d failed",
		first.Round(time.Millisecond), last.Round(time.Millisecond), answered, failed)
	_, broke, _, _ := a.since(began.Add(-callBound))
	t.Logf("%d of the calls that were under way broke off", broke-failed)
	a.settlesMore(t, "requests are settled by the other zone", 100)
	old := time.Now()
	trial.Until(t, "no hold from before is open", func() bool { return a.open(t, old) == 0 })
	t.Logf("holds of the lost zone were closed %v after the loss", time.Since(began).Round(time.Second))
	a.start(t, lost...)
	a.whole(t)
	a.settlesMore(t, "requests are settled by both zones", 100)
	a.sound(t)
}

// open counts the open holds that were admitted before a time.
func (a *audited) open(t *testing.T, before time.Time) (n int) {
	t.Helper()
	a.disk.must(t, `SELECT count(*) FROM billing.hold WHERE state = 'open' AND admitted_at < '`+
		before.UTC().Format(time.RFC3339Nano)+`'`, &n)
	return n
}
