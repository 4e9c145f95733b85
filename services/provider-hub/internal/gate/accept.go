package gate

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// Agents that find no room are asked to come back after a random number of seconds, so
// that agents that were refused together do not come together again.
const (
	minRetry = 2
	maxRetry = 15
)

// ServeHTTP upgrades a request and starts serving the socket. Anything else than an
// upgrade to a known dialect is refused in plain text.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" && !strings.HasSuffix(r.URL.Path, "/ws") {
		refuse(w, http.StatusNotFound, "there is nothing here; the provider connection is at /ws")
		return
	}
	speaks, ok := g.dialectOf(r)
	if !ok {
		refuse(w, http.StatusBadRequest,
			"this is the provider connection: a WebSocket with subprotocol "+agentwire.Subprotocol+", or with none")
		return
	}
	c, ok := g.enter(r, speaks)
	if !ok {
		after := minRetry + rand.IntN(maxRetry-minRetry+1) //nolint:gosec // spreads load, guards nothing
		w.Header().Set("Retry-After", strconv.Itoa(after))
		refuse(w, http.StatusServiceUnavailable, "this hub takes no new connections now")
		return
	}
	conn, err := g.upgrader.Upgrade(w, r, wsconn.Config{
		Kind: speaks.Kind, WriteTimeout: g.cfg.WriteTimeout, LargeTimeout: g.cfg.LargeTimeout,
	})
	if err != nil {
		c.leave()
		g.leave(c)
		g.log.Debug("a provider's handshake failed", "error", err)
		return
	}
	c.conn = conn
	// The HTTP server keeps its part of a request until the handler returns.
	go g.run(c)
}

// run serves a socket. A panic in reading it ends this socket only, as in a handler; the
// others stay.
func (g *Gate) run(c *socket) {
	defer g.leave(c)
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("a session broke down", "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
	}()
	c.run()
}

// dialectOf is the dialect that an upgrade asks for.
func (g *Gate) dialectOf(r *http.Request) (speaks *dialect.Dialect, ok bool) {
	offered, upgrade := wsconn.Offers(r)
	switch {
	case !upgrade:
		return nil, false
	case slices.Contains(offered, agentwire.Subprotocol):
		return g.v2, true
	default:
		return g.v1, len(offered) == 0
	}
}

func refuse(w http.ResponseWriter, status int, text string) {
	http.Error(w, text, status)
}

// enter gives a socket its place.
func (g *Gate) enter(r *http.Request, speaks *dialect.Dialect) (*socket, bool) {
	from := g.cfg.Addresses.Of(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining || len(g.sockets) >= g.cfg.MaxSockets || !g.admission.enter(from) {
		return nil, false
	}
	c := newSocket(g, speaks, from)
	g.sockets[c] = struct{}{}
	g.open.Add(1)
	g.counts.Sockets.Add(1)
	return c, true
}

// leave removes a closed socket.
func (g *Gate) leave(c *socket) {
	g.mu.Lock()
	delete(g.sockets, c)
	g.mu.Unlock()
	g.counts.Sockets.Add(-1)
	g.open.Done()
}
