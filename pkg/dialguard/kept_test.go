package dialguard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var kept = Kept{Idle: 2, IdleFor: time.Minute, HeaderBytes: 4 << 10}

func TestAKeepingClientDialsOnceAndIsGuardedAtTheDial(t *testing.T) {
	var dials atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dials.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	allowed := (&Dialer{Allow: netip.Addr.IsLoopback}).KeepingClient(kept)
	for range 3 {
		resp, err := allowed.Get(server.URL) //nolint:noctx // a server of the test
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if got := dials.Load(); got != 1 {
		t.Errorf("connections of three requests: got %d, want 1", got)
	}
	if _, err := get(t, (&Dialer{}).KeepingClient(kept), server.URL); !errors.Is(err, ErrPrivate) {
		t.Errorf("a loopback address: got the error %v, want %v", err, ErrPrivate)
	}
	closed := &Dialer{Allow: netip.Addr.IsLoopback, Port: func(uint16) bool { return false }}
	if _, err := get(t, closed.KeepingClient(kept), server.URL); !errors.Is(err, ErrPort) {
		t.Errorf("a port that is not admitted: got the error %v, want %v", err, ErrPort)
	}
}

func TestAKeepingClientFollowsNoRedirectAndBoundsHeads(t *testing.T) {
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			reached.Store(true)
		case "/large":
			w.Header().Set("X-Large", strings.Repeat("x", 64<<10))
		default:
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer server.Close()
	client := (&Dialer{Allow: netip.Addr.IsLoopback}).KeepingClient(kept)
	if status, err := get(t, client, server.URL); err != nil {
		t.Errorf("a redirect: got the error %v, want none", err)
	} else if status != http.StatusFound {
		t.Errorf("a redirect: status: got %d, want 302", status)
	}
	if reached.Load() {
		t.Error("a redirect is followed")
	}
	if _, err := get(t, client, server.URL+"/large"); err == nil {
		t.Error("a head of 64 KiB: got no error, want one")
	}
}

func TestServersOfInferenceListenOnHarmlessPortsAlone(t *testing.T) {
	for port, want := range map[uint16]bool{
		443: true, 1024: true, 8000: true, 8080: true, 8443: true, 11434: true, 30000: true, 65535: true,
		0: false, 22: false, 25: false, 80: false, 444: false, 1023: false, 5432: false, 6379: false, 9200: false,
		2375: false, 4222: false, 10250: false, 11211: false, 27017: false,
	} {
		if got := ServerPort(port); got != want {
			t.Errorf("port %d: got %v, want %v", port, got, want)
		}
	}
}

// A hub calls many servers, and each server may keep its connections open for as long as it likes.
func TestTheConnectionsOfAKeepingClientAreBounded(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	of := Kept{HeaderBytes: 4 << 10, Open: 2, OpenPerHost: 1}
	transport, _ := (&Dialer{Allow: netip.Addr.IsLoopback}).KeepingClient(of).Transport.(*http.Transport)
	if got := transport.MaxConnsPerHost; got != 1 {
		t.Errorf("connections to one host: got %d, want 1", got)
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return transport.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	for range of.Open {
		conn, err := dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(ended); !errors.Is(err, ErrConnections) {
		t.Errorf("one more: got the error %v, want %v", err, ErrConnections)
	}
}

func TestADialThatFindsNoPlaceSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial := bounded(func(context.Context, string, string) (net.Conn, error) {
			conn, _ := net.Pipe()
			return conn, nil
		}, 1)
		conn, err := dial(t.Context(), "tcp", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := dial(t.Context(), "tcp", "b:1"); !errors.Is(err, ErrConnections) {
			t.Errorf("one more: got the error %v, want %v", err, ErrConnections)
		}
		if took := time.Since(began); took != dialTimeout {
			t.Errorf("one more: waited %v, want %v", took, dialTimeout)
		}
		_ = conn.Close()
		_ = conn.Close() // frees one place alone
		if _, err := dial(t.Context(), "tcp", "b:1"); err != nil {
			t.Errorf("after the end of one: got the error %v, want none", err)
		}
		if _, err := dial(t.Context(), "tcp", "c:1"); !errors.Is(err, ErrConnections) {
			t.Errorf("one more again: got the error %v, want %v", err, ErrConnections)
		}
	})
}
