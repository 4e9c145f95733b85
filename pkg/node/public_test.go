package node

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

func TestThePublicWaitsUntilTheServicesCanServe(t *testing.T) {
	n := newNode(t, loopback(), deskSpec())
	d := &desk{stopped: func() {}}
	d.notReady.Store(true)
	n.Add(BillingLedger, d)
	public, err := n.Listen("public", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if d.notReady.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	n.Serve(Endpoint{Name: "public", Listener: public, Public: true, Handler: handler})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, Extra{}) }()
	// The request waits at the listener: it is sent before the service can serve.
	conn, err := net.Dial("tcp", public.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: public\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get("http://" + n.AdminAddress() + "/readyz"); err != nil {
		t.Error(err)
	} else {
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("readiness before the service is ready: got %d, want 503", resp.StatusCode)
		}
	}
	d.notReady.Store(false)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the request that waited: got %d, want 200", resp.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
