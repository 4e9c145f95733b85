package dialguard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
)

func get(t *testing.T, client *http.Client, url string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestTheDialerConnectsToNoPrivateAddress(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := (&Dialer{}).Client()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"} {
		if _, err := get(t, client, "http://"+host+":"+port); !errors.Is(err, ErrPrivate) {
			t.Errorf("%s: got %v, want %v", host, err, ErrPrivate)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("requests came through: got %d, want 0", n)
	}
	allowed := (&Dialer{Allow: netip.Addr.IsLoopback}).Client()
	if status, err := get(t, allowed, server.URL); err != nil {
		t.Errorf("an address that is allowed: got the error %v, want none", err)
	} else if status != http.StatusOK {
		t.Errorf("an address that is allowed: status: got %d, want 200", status)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			reached.Store(true)
		}
		http.Redirect(w, r, "/there", http.StatusFound)
	}))
	defer server.Close()
	status, err := get(t, (&Dialer{Allow: netip.Addr.IsLoopback}).Client(), server.URL)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case status != http.StatusFound:
		t.Errorf("status: got %d, want 302", status)
	case reached.Load():
		t.Error("reached.Load(): got true, want false")
	}
}

// A name may be public when it is looked at and private when it is dialled: only
// the address that is connected to counts.
func TestWhatANameResolvesToIsJudgedWhenItIsDialled(t *testing.T) {
	d := &Dialer{}
	for address, want := range map[string]error{
		"8.8.8.8:443": nil, "[2606:4700::1111]:443": nil,
		"10.0.0.1:80": ErrPrivate, "169.254.169.254:80": ErrPrivate, "[fd00::1]:80": ErrPrivate,
		"[64:ff9b::a00:1]:80":  ErrPrivate,
		"[::ffff:10.0.0.1]:80": ErrPrivate, "100.100.100.200:80": ErrPrivate, "name:80": ErrPrivate, "": ErrPrivate,
	} {
		if err := d.control("tcp", address, nil); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%q: got %v, want %v", address, err, want)
		}
	}
	var looked atomic.Int64
	d.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		looked.Add(1)
		return nil, errors.New("no resolver in a test")
	}}
	if _, err := get(t, d.Client(), "http://pictures.example.org"); err == nil {
		t.Error("got no error, want one")
	} else if looked.Load() == 0 {
		t.Error("the resolver was asked: got 0, want any but 0")
	}
}
