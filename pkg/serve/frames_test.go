package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// recorder is a listener that keeps what its connections read and write.
type recorder struct {
	net.Listener
	mu         sync.Mutex
	read, sent bytes.Buffer
}

func (r *recorder) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	return &recordedConn{Conn: conn, to: r}, err
}

type recordedConn struct {
	net.Conn
	to *recorder
}

func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.read.Write(b[:n])
	return n, err
}

func (c *recordedConn) Write(b []byte) (int, error) {
	c.to.mu.Lock()
	c.to.sent.Write(b)
	c.to.mu.Unlock()
	return c.Conn.Write(b)
}

// frames counts the HTTP/2 frames of a direction by their type.
func frames(b []byte) map[byte]int {
	const head = 9
	counts := map[byte]int{}
	for len(b) >= head {
		size := int(binary.BigEndian.Uint32(b) >> 8)
		counts[b[3]]++
		b = b[min(head+size, len(b)):]
	}
	return counts
}

// A ping and its answer cost as many system calls as the call itself.
func TestACallIsFollowedByNoPing(t *testing.T) {
	t.Parallel()
	const data, ping, calls = 0x0, 0x6, 10
	in, err := NewInterceptors(slog.New(slog.DiscardHandler), noop.NewMeterProvider(), tracenoop.NewTracerProvider())
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	recorded := &recorder{Listener: lis}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- GRPC(ctx, recorded, GRPCConfig{Interceptors: in}, func(r grpc.ServiceRegistrar) {
			grpc_health_v1.RegisterHealthServer(r, &checker{check: func(context.Context) error { return nil }})
		})
	}()
	conn, err := Dial(Target{Service: "test", Addresses: []string{lis.Addr().String()}, Exactly: true}, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range calls {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Error(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	for end, b := range map[string][]byte{
		"client": recorded.read.Bytes()[preface:], "server": recorded.sent.Bytes(),
	} {
		got := frames(b)
		if got[data] < calls {
			t.Errorf("the %s's messages: got %d, want %d", end, got[data], calls)
		}
		// A server that stops asks with one ping how far its client is.
		if got[ping] > 1 {
			t.Errorf("the %s's pings: got %d, want 1 at most", end, got[ping])
		}
	}
}
