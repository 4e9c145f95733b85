package sockets_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"svc.internal/pkg/address"
	"svc.internal/services/edge-gateway/internal/sockets"
)

// bench is a bounded listener whose connections a test holds.
type bench struct {
	t        *testing.T
	lis      *sockets.Listener
	accepted chan net.Conn
	refused  chan sockets.Reason
}

func start(t *testing.T, cfg sockets.Config) *bench {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, accepted: make(chan net.Conn, 16), refused: make(chan sockets.Reason, 16)}
	b.lis = sockets.Bound(plain, cfg, address.Network, func(r sockets.Reason) { b.refused <- r })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := b.lis.Accept()
			if err != nil {
				return
			}
			b.accepted <- conn
		}
	}()
	t.Cleanup(func() { plain.Close(); <-done })
	return b
}

// dial opens a connection from an address of this machine.
func (b *bench) dial(from string) net.Conn {
	b.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", b.lis.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

// wantRefused waits until a connection from an address has been closed.
func (b *bench) wantRefused(from string, want sockets.Reason) {
	b.t.Helper()
	conn := b.dial(from)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		b.t.Error("got a byte of a connection beyond the bound")
	}
	if got := <-b.refused; got != want {
		b.t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnectionsAreBoundedInAllAndOfANetwork(t *testing.T) {
	b := start(t, sockets.Config{MaxConnections: 4, MaxPerNetwork: 2})
	b.dial("127.0.0.1")
	b.dial("127.0.0.1")
	first, second := <-b.accepted, <-b.accepted
	b.wantRefused("127.0.0.1", sockets.NetworkFull)
	b.dial("127.0.0.2")
	b.dial("127.0.0.3")
	<-b.accepted
	<-b.accepted
	b.wantRefused("127.0.0.4", sockets.Full)
	if got := b.lis.Open(); got != 4 {
		t.Errorf("got %d open, want 4", got)
	}
	// A place is given back once, however often the connection is closed.
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	b.dial("127.0.0.1")
	b.dial("127.0.0.1")
	<-b.accepted
	<-b.accepted
	if got := b.lis.Open(); got != 4 {
		t.Errorf("got %d open, want 4", got)
	}
}

func TestTrustedProxiesHaveNoBoundOfTheirOwn(t *testing.T) {
	b := start(t, sockets.Config{MaxConnections: 4, MaxPerNetwork: 1,
		Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}})
	for range 4 {
		b.dial("127.0.0.9")
		<-b.accepted
	}
	b.wantRefused("127.0.0.9", sockets.Full)
}

// net/http half-closes a connection whose request it has not read to the end.
func TestAConnectionCanStillBeHalfClosed(t *testing.T) {
	b := start(t, sockets.Config{MaxConnections: 1, MaxPerNetwork: 1})
	client := b.dial("127.0.0.1")
	server := <-b.accepted
	half, ok := server.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("the connection cannot be half-closed")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	if got := b.lis.Open(); got != 1 {
		t.Errorf("got %d open, want 1", got)
	}
}
