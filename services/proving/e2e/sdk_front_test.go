package e2e

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// front stands before a market's gateways, which take turns. It sees what an SDK sends:
// each attempt, and how many connections the SDK keeps.
type front struct {
	url       string
	transport *http.Transport

	mu       sync.Mutex
	attempts []attempt
	open     map[net.Conn]http.ConnState
	heldBack *heldBack
}

// attempt is one request of an SDK, and the answer to it if it has begun.
type attempt struct {
	path   string
	body   []byte
	status int
	id     string
	// code is that of a refusal.
	code string
}

// maxRefusal bounds what is read of a refusal, in bytes.
const maxRefusal = 64 << 10

// heldBack is an answer of a certain status that is kept from the SDK until the test has
// seen it.
type heldBack struct {
	status  int
	arrived chan struct{}
	release chan struct{}
}

func newFront(t *testing.T, m *trial.Market) *front {
	t.Helper()
	f := &front{transport: &http.Transport{}, open: map[net.Conn]http.ConnState{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			base, err := url.Parse(m.Base())
			if err != nil {
				panic(err) // the market's own address
			}
			r.SetURL(base)
		},
		Transport: f.transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: f.answered,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(w, f.asked(r))
	}))
	server.Config.ConnState = f.connected
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	f.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		f.transport.CloseIdleConnections()
	})
	return f
}

// place is the key of a request's place among the attempts in its context.
type place struct{}

func (f *front) asked(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = nil // the SDK left while it sent
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts = append(f.attempts, attempt{path: r.URL.Path, body: body})
	return r.WithContext(context.WithValue(r.Context(), place{}, len(f.attempts)-1))
}

func (f *front) answered(resp *http.Response) error {
	code := ""
	if resp.StatusCode >= http.StatusBadRequest {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		if err != nil {
			return err
		}
		code = trial.ErrorCode(body)
		resp.Body = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(body), resp.Body}
	}
	f.mu.Lock()
	a := &f.attempts[resp.Request.Context().Value(place{}).(int)]
	a.status, a.id, a.code = resp.StatusCode, resp.Header.Get(trial.RequestIDHeader), code
	held := f.heldBack
	if held != nil && held.status == resp.StatusCode {
		f.heldBack = nil
	} else {
		held = nil
	}
	f.mu.Unlock()
	if held != nil {
		close(held.arrived)
		select {
		case <-held.release:
		case <-resp.Request.Context().Done():
		}
	}
	return nil
}

// holdBack keeps the next answer of a status from the SDK until release is
// closed.
func (f *front) holdBack(status int) *heldBack {
	h := &heldBack{status: status, arrived: make(chan struct{}), release: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heldBack = h
	return h
}

// since are the attempts after the first n; seen is how many there are.
func (f *front) since(n int) []attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]attempt(nil), f.attempts[n:]...)
}

func (f *front) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.attempts)
}

func (f *front) connected(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(f.open, conn)
		return
	}
	f.open[conn] = state
}

// connections are the connections that the SDK keeps, and those of them in use.
func (f *front) connections() (kept, used int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, state := range f.open {
		kept++
		if state == http.StateActive {
			used++
		}
	}
	return kept, used
}
