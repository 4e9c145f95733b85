package session

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/clock"
)

// Server accepts the sockets of agents. It is an http.Handler for the paths /,
// /ws and any prefix with /ws behind it.
type Server struct {
	cfg       Config
	registrar *gate
	clock     clock.Clock
	log       *slog.Logger
	counts    *Counts
	receipts  Receipts
	upgrader  websocket.Upgrader
	buffers   sync.Pool

	mu        sync.Mutex
	accepting bool
	sessions  map[*Session]struct{}
	shake     bucket
	sockets   sync.WaitGroup
}

// gate bounds how many keys are looked up at once.
type gate struct {
	Registrar
	slots chan struct{}
}

// Admit waits for its turn as long as ctx lasts.
func (g *gate) Admit(ctx context.Context, key string) (Grant, error) {
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		return Grant{}, ctx.Err()
	}
	defer func() { <-g.slots }()
	return g.Registrar.Admit(ctx, key)
}

// NewServer returns a server that takes no sockets until Accept.
func NewServer(cfg Config, registrar Registrar, c clock.Clock, log *slog.Logger, counts *Counts) *Server {
	cfg = cfg.WithDefaults()
	return &Server{
		cfg: cfg, registrar: &gate{registrar, make(chan struct{}, cfg.MaxAdmissions)},
		clock: c, log: log, counts: counts,
		upgrader: websocket.Upgrader{
			Subprotocols: []string{Subprotocol}, HandshakeTimeout: cfg.RegisterTimeout,
			// Reading goes on in the HTTP server's own buffer.
			WriteBufferSize: 4 << 10, WriteBufferPool: &sync.Pool{},
			// Agents are programs, not web pages: an Origin means nothing.
			CheckOrigin: func(*http.Request) bool { return true },
		},
		buffers:  sync.Pool{New: func() any { b := make([]byte, maxMessage+1<<10); return &b }},
		sessions: map[*Session]struct{}{},
		shake:    newBucket(cfg.HandshakeRate, cfg.HandshakeBurst, c.Now()),
	}
}

// Accept begins to take sockets.
func (s *Server) Accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepting = true
}

// ServeHTTP upgrades a request and serves the socket until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/" && !strings.HasSuffix(r.URL.Path, "/ws"):
		refuse(w, http.StatusNotFound, "there is nothing here; the provider connection is at /ws")
		return
	case !websocket.IsWebSocketUpgrade(r):
		refuse(w, http.StatusBadRequest, "this is the provider connection: a WebSocket with subprotocol "+Subprotocol)
		return
	case !speaks(r):
		refuse(w, http.StatusBadRequest, "the WebSocket must offer subprotocol "+Subprotocol)
		return
	}
	session, ok := s.enter(r.Context())
	if !ok {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "this hub takes no new connections now")
		return
	}
	defer s.leave(session)
	hijacker := &batchHijacker{ResponseWriter: w, large: &s.buffers}
	ws, err := s.upgrader.Upgrade(hijacker, r, nil)
	if err != nil {
		session.end()
		s.log.Debug("a provider's handshake failed", "error", err)
		return
	}
	(&socket{session: session, ws: ws, out: hijacker.conn, buffers: &s.buffers}).run()
}

func speaks(r *http.Request) bool {
	for _, p := range websocket.Subprotocols(r) {
		if p == Subprotocol {
			return true
		}
	}
	return false
}

func refuse(w http.ResponseWriter, status int, text string) {
	http.Error(w, text, status)
}

// enter gives a socket its place, in turn when many come at once: a fleet of
// agents that lost another hub is let in at a steady rate instead of refused.
func (s *Server) enter(ctx context.Context) (*Session, bool) {
	s.mu.Lock()
	if !s.accepting || len(s.sessions) >= s.cfg.MaxSockets {
		s.mu.Unlock()
		return nil, false
	}
	wait, ok := s.shake.reserve(s.clock.Now(), s.cfg.HandshakeWait)
	if !ok {
		s.mu.Unlock()
		return nil, false
	}
	session := newSession(s.cfg, s.registrar, s.clock, s.counts)
	session.receipts = s.receipts
	s.sessions[session] = struct{}{}
	s.sockets.Add(1)
	s.counts.Sockets.Add(1)
	s.mu.Unlock()
	if wait == 0 {
		return session, true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return session, true
	case <-ctx.Done():
		session.end()
		s.leave(session)
		return nil, false
	}
}

func (s *Server) leave(session *Session) {
	s.mu.Lock()
	delete(s.sessions, session)
	s.mu.Unlock()
	s.counts.Sockets.Add(-1)
	s.sockets.Done()
}

// Drain takes no further sockets and asks every agent to send nobody more. The
// agents are told to dial again at times spread out, so that the hub that takes
// them over is not run down.
func (s *Server) Drain() {
	for _, session := range s.stop() {
		session.Drain(s.spread())
	}
}

// Close ends every session and returns when their sockets are closed or ctx
// has ended.
func (s *Server) Close(ctx context.Context) error {
	for _, session := range s.stop() {
		why := closing(CodeShuttingDown, "the hub shuts down")
		why.ReconnectAfter = s.spread()
		session.Shut(why)
	}
	done := make(chan struct{})
	go func() {
		s.sockets.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop refuses new sockets and lists those there are.
func (s *Server) stop() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepting = false
	all := make([]*Session, 0, len(s.sessions))
	for session := range s.sessions {
		all = append(all, session)
	}
	return all
}

func (s *Server) spread() time.Duration {
	return time.Second + rand.N(s.cfg.ReconnectSpread) //nolint:gosec // spreads load, guards nothing
}
