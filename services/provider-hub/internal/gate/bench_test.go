package gate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// BenchmarkIdleSession is the memory of a registered session that does nothing,
// with its sockets at both ends, goroutines and buffers.
func BenchmarkIdleSession(b *testing.B) {
	const n = 1000
	e := serve(b, Config{HandshakeRate: 1e6, HandshakeBurst: 1e6})
	hub := httptest.NewServer(e.gate)
	defer hub.Close()
	before := inUse()
	var conns []net.Conn
	for i := range n {
		conn, err := net.Dial("tcp", hub.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, conn)
		_, _ = io.WriteString(conn, handshake+"\r\n")
		r := bufio.NewReader(conn)
		if answer, err := http.ReadResponse(r, nil); err != nil {
			b.Fatalf("got the error %v, want none", err)
		} else if answer.StatusCode != http.StatusSwitchingProtocols {
			b.Fatalf("answer.StatusCode: got %d, want 101", answer.StatusCode)
		}
		_, _ = conn.Write(masked(finBit|opText, []byte(sessiontest.RegisterText("good", fmt.Sprintf("node-%04d", i)))))
		if _, _, err := readServerFrame(r); err != nil {
			b.Fatal(err)
		}
	}
	each := float64(inUse()-before) / n
	for _, conn := range conns {
		_ = conn.Close()
	}
	for b.Loop() {
		runtime.Gosched()
	}
	b.ReportMetric(each, "bytes/session")
	b.ReportMetric(0, "ns/op")
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
