package gate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// BenchmarkIdleSession is the memory of a registered session that does nothing,
// with its sockets at both ends, goroutines and buffers.
func BenchmarkIdleSession(b *testing.B) {
	const n = 1000
	hub := idleHub(b)
	before := inUse()
	register(b, hub, n)
	each := float64(inUse()-before) / n
	for b.Loop() {
		runtime.Gosched()
	}
	b.ReportMetric(each, "bytes/session")
	b.ReportMetric(0, "ns/op")
}

// TestAnIdleSessionIsOneGoroutine holds what an idle session costs the hub: the goroutine that
// reads. What registered the session and what wrote the answer have ended. It is not parallel,
// because it counts the goroutines of all sockets of the process.
func TestAnIdleSessionIsOneGoroutine(t *testing.T) {
	const n, each = 100, 1
	register(t, idleHub(t), n)
	// The last goroutines of the registrations end by themselves, soon after the answers.
	var got int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if got = socketGoroutines(); got == n*each {
			return
		}
	}
	t.Errorf("goroutines of %d idle sessions: got %d, want %d", n, got, n*each)
}

// socketGoroutines is how many goroutines serve sockets, in the gate or still in the HTTP server.
func socketGoroutines() (n int) {
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("gate.(*socket)")) || bytes.Contains(stack, []byte("http.(*conn).serve")) {
			n++
		}
	}
	return n
}

// idleHub serves a gate that takes many registrations at once.
func idleHub(t testing.TB) *httptest.Server {
	e := serve(t, Config{HandshakeRate: 1e6, HandshakeBurst: 1e6})
	hub := httptest.NewServer(e.gate)
	t.Cleanup(hub.Close)
	return hub
}

// register opens sockets that register and then do nothing until the test ends.
func register(t testing.TB, hub *httptest.Server, sockets int) {
	t.Helper()
	for i := range sockets {
		conn, err := net.Dial("tcp", hub.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, handshake+"\r\n")
		r := bufio.NewReader(conn)
		if answer, err := http.ReadResponse(r, nil); err != nil {
			t.Fatalf("got the error %v, want none", err)
		} else if answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("answer.StatusCode: got %d, want 101", answer.StatusCode)
		}
		_, _ = conn.Write(masked(finBit|opText, []byte(sessiontest.RegisterText("good", fmt.Sprintf("node-%04d", i)))))
		if _, _, err := readServerFrame(r); err != nil {
			t.Fatal(err)
		}
	}
}

// inUse is the memory of heap and stacks.
func inUse() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
