package bus_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"svc.internal/pkg/bus"
)

// cluster starts servers that keep streams together, and returns the URL of one of them.
func cluster(t *testing.T, size int) string {
	t.Helper()
	configs := clusterOf(t, size)
	all := make([]*server.Server, size)
	for n, config := range configs {
		all[n] = startServer(t, config)
	}
	for _, ns := range all {
		awaitServer(t, ns)
	}
	return all[0].ClientURL()
}

// clusterOf makes the configurations of servers that know each other.
func clusterOf(t *testing.T, size int) []*server.Options {
	t.Helper()
	routes, listeners := make([]*url.URL, size), make([]net.Listener, size)
	for n := range size {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[n], routes[n] = listener, &url.URL{Scheme: "nats-route", Host: listener.Addr().String()}
	}
	all := make([]*server.Options, size)
	for n := range size {
		addr := listeners[n].Addr().(*net.TCPAddr)
		all[n] = &server.Options{
			ServerName: fmt.Sprint("nats-", n), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: addr.Port},
		}
		if err := listeners[n].Close(); err != nil { // the server takes the port
			t.Fatal(err)
		}
	}
	return all
}

// startServer starts a server of a cluster until the test ends.
func startServer(t *testing.T, config *server.Options) *server.Server {
	t.Helper()
	ns, err := server.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	return ns
}

func awaitServer(t *testing.T, ns *server.Server) {
	t.Helper()
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("a server of the cluster is not ready")
	}
}

// Two of three servers that have never met the third elect no leader.
func TestAStreamIsMadeOnceItsClusterIsComplete(t *testing.T) {
	t.Parallel()
	configs := clusterOf(t, 3)
	first, second := startServer(t, configs[0]), startServer(t, configs[1])
	awaitServer(t, first)
	awaitServer(t, second)
	c := join(t, bus.Config{URL: first.ClientURL(), Replicas: 3})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := c.EnsureStream(ctx, facts)
		cancel()
		if err == nil {
			t.Fatal("a stream of three copies on two servers: got no error, want one")
		}
		t.Logf("with two servers: %v", err)
	}
	awaitServer(t, startServer(t, configs[2]))
	ensureSoon(t, c, facts)
}
