package wsconn

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Offers is what a request asks for: whether it is an upgrade, and to which
// subprotocols.
func Offers(r *http.Request) (subprotocols []string, upgrade bool) {
	return websocket.Subprotocols(r), websocket.IsWebSocketUpgrade(r)
}

// Upgrader makes handshakes.
type Upgrader struct {
	library websocket.Upgrader
	pool    *Pool
}

// NewUpgrader returns an upgrader that agrees to one subprotocol, or to none. The
// answer to a handshake is written within timeout.
func NewUpgrader(subprotocol string, timeout time.Duration, p *Pool) *Upgrader {
	return &Upgrader{pool: p, library: websocket.Upgrader{
		Subprotocols: []string{subprotocol}, HandshakeTimeout: timeout,
		// The library makes the handshake only: it needs no buffers.
		WriteBufferSize: 4 << 10, WriteBufferPool: &sync.Pool{},
		// Agents are programs, not web pages: an Origin means nothing.
		CheckOrigin: func(*http.Request) bool { return true },
	}}
}

// Upgrade makes the handshake. Where it fails, the request has been answered.
func (u *Upgrader) Upgrade(w http.ResponseWriter, r *http.Request, cfg Config) (*Conn, error) {
	h := &hijacker{ResponseWriter: w, cfg: cfg, pool: u.pool}
	if _, err := u.library.Upgrade(h, r, nil); err != nil {
		return nil, err
	}
	// The library refuses whoever sends anything before the handshake is through: the
	// server's reader is empty, and is left to it.
	h.conn.out.begin()
	return h.conn, nil
}

// hijacker makes the library take its connection through a batch.
type hijacker struct {
	http.ResponseWriter
	cfg  Config
	pool *Pool
	conn *Conn
}

var errNoHijack = errors.New("the HTTP server cannot hand over its connection")

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	server, ok := h.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errNoHijack
	}
	conn, rw, err := server.Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = newConn(conn, h.cfg, h.pool)
	return &h.conn.out, rw, nil
}
