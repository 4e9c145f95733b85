package pg_test

import (
	"net"
	"runtime"
	"testing"
	"time"

	"svc.internal/pkg/pg"
)

// A pool asks an idle connection for an answer where it is not quiet, or was idle for a minute.
func TestAConnectionIsQuietUntilItsPeerSpeaksOrEndsIt(t *testing.T) {
	for name, act := range map[string]func(net.Conn) error{
		"speaks": func(peer net.Conn) error { _, err := peer.Write([]byte("E")); return err },
		"ends":   net.Conn.Close,
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		peer, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = peer.Close() }()
		if !pg.IsQuiet(conn) {
			t.Errorf("%s: an open connection on which nothing came is not quiet", name)
		}
		if err := act(peer); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); pg.IsQuiet(conn); {
			if time.Now().After(deadline) {
				t.Fatalf("a connection whose peer %s is quiet", name)
			}
		}
	}
}

func TestALookAtAConnectionWaitsForNobodyWhoReadsIt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = conn.Read(make([]byte, 1)) // until the connection is closed
	}()
	for range 1000 { // the reader begins meanwhile
		if !pg.IsQuiet(conn) {
			t.Fatal("an open connection on which nothing came is not quiet")
		}
		runtime.Gosched()
	}
	_ = conn.Close()
	<-ended
}

func TestAConnectionThatCannotBeLookedAtIsNotQuiet(t *testing.T) {
	if one, other := net.Pipe(); pg.IsQuiet(one) {
		t.Errorf("a connection that cannot be looked at is quiet: %v", other)
	}
}
