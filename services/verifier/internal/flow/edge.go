package flow

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/prompt"
)

// The bounds of connections to the edge.
const (
	dialTimeout    = 10 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
	// maxPools bounds the pools of connections: one for each account and client.
	maxPools = 1_024
)

// ErrEdge is the error for an address of the edge that cannot be used.
var ErrEdge = errors.New("not an address of the public API")

// Edge is the public API as a consumer reaches it. Each account has connections of its
// own for each client library, because a library does not share them. It is safe for
// concurrent use.
type Edge struct {
	base   *url.URL
	tls    *tls.Config
	secret prompt.Secret

	mu    sync.Mutex
	pools map[pool]*http.Client
}

// pool names connections.
type pool struct {
	account ids.AccountID
	client  client
}

// NewEdge returns the edge at an address such as https://api.example.org. It refuses an
// address without TLS outside loopback, with a query, or with a user. trust may be nil for
// the system's roots.
func NewEdge(address string, trust *tls.Config, secret prompt.Secret) (*Edge, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it cannot be read", ErrEdge)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return nil, fmt.Errorf("%w: it is not scheme, host and path alone", ErrEdge)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("%w: http is for loopback alone", ErrEdge)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%w: its scheme is not https", ErrEdge)
	}
	return &Edge{base: u, tls: trust, secret: secret, pools: map[pool]*http.Client{}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close closes the connections that are idle.
func (e *Edge) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closeLocked()
}

func (e *Edge) closeLocked() {
	for _, c := range e.pools {
		c.CloseIdleConnections()
	}
	clear(e.pools)
}

// connections returns the connections of an account's client.
func (e *Edge) connections(of pool) *http.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.pools[of]; c != nil {
		return c
	}
	if len(e.pools) >= maxPools {
		e.closeLocked() // accounts come and go; requests under way keep theirs
	}
	c := &http.Client{
		Transport: &http.Transport{
			DialContext: e.dial, TLSClientConfig: e.tls.Clone(), TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2: of.client.modern(), DisableCompression: true, // body.go decompresses within bounds
			MaxIdleConnsPerHost: 2, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	e.pools[of] = c
	return c
}

// dial connects, without TLS to loopback alone, whatever the name resolves to.
func (e *Edge) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || e.base.Scheme == "https" {
		return conn, err
	}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(ErrEdge, conn.Close())
	}
	return conn, nil
}

// posted is an answer whose body is not read yet. began is when the request was written.
type posted struct {
	*http.Response
	began time.Time
}

// post sends a request as the client that its body looks like.
func (e *Edge) post(
	ctx context.Context, path string, body []byte, key house.Key, provider ids.ProviderID, streamed bool,
) (posted, error) {
	as := clientOf(body)
	var wrote atomic.Int64
	began := clock.System.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(int64(clock.System.Now().Sub(began))) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return posted{}, fmt.Errorf("make a request: %w", err)
	}
	req.Header = as.headers(e.secret, key.Account, streamed)
	req.Header["Authorization"] = []string{"Bearer " + key.Text.Reveal()}
	req.Header["X-Svc-Provider"] = []string{provider.String()}
	req.Header["X-Svc-Allow-Fallbacks"] = []string{"false"}
	resp, err := e.connections(pool{key.Account, as}).Do(req)
	if err != nil {
		return posted{}, fmt.Errorf("ask the edge: %w", err)
	}
	return posted{resp, began.Add(time.Duration(wrote.Load()))}, nil
}
