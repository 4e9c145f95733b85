package session

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/clock"
)

// Server accepts the sockets of agents. It is an http.Handler for the paths /,
// /ws and any prefix with /ws behind it.
type Server struct {
	cfg      Config
	house    *house
	log      *slog.Logger
	upgrader websocket.Upgrader
	buffers  sync.Pool
	budget   *budget

	mu       sync.Mutex
	draining bool
	sessions map[*Session]struct{}
	sockets  sync.WaitGroup
}

// Deps are what a server works with.
type Deps struct {
	Registrar Registrar
	Receipts  Receipts // nil: receipts are passed over
	Clock     clock.Clock
	Log       *slog.Logger
	Counts    *Counts
}

// NewServer returns a server that holds sockets, and registers nobody until
// Accept.
func NewServer(cfg Config, deps Deps) *Server {
	cfg = cfg.WithDefaults()
	return &Server{
		cfg: cfg, log: deps.Log, house: newHouse(cfg, deps),
		upgrader: websocket.Upgrader{
			Subprotocols: []string{Subprotocol}, HandshakeTimeout: cfg.RegisterTimeout,
			// The library makes the handshake only: it needs no buffers.
			WriteBufferSize: 4 << 10, WriteBufferPool: &sync.Pool{},
			// Agents are programs, not web pages: an Origin means nothing.
			CheckOrigin: func(*http.Request) bool { return true },
		},
		buffers:  sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }},
		budget:   newBudget(cfg.LargeBudget),
		sessions: map[*Session]struct{}{},
	}
}

func newHouse(cfg Config, deps Deps) *house {
	return &house{
		cfg: cfg, registrar: deps.Registrar, receipts: deps.Receipts, queue: newQueue(cfg, deps.Registrar, deps.Clock),
		door: newDoor(cfg.MaxWaiting, deps.Clock), exit: newExit(),
		clock: deps.Clock, counts: deps.Counts, held: newBudget(cfg.HeldBudget),
	}
}

// Accept begins to register agents, those that wait first.
func (s *Server) Accept() { s.house.queue.open() }

// Agents that find no room are told to come back after so many seconds, at random,
// so that those that were refused together do not come together again.
const (
	retryLeast = 2
	retryMost  = 15
)

// ServeHTTP upgrades a request and has the socket served until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" && !strings.HasSuffix(r.URL.Path, "/ws") {
		refuse(w, http.StatusNotFound, "there is nothing here; the provider connection is at /ws")
		return
	}
	speak, ok := dialectOf(r)
	if !ok {
		refuse(w, http.StatusBadRequest, "this is the provider connection: a WebSocket with subprotocol "+Subprotocol+", or with none")
		return
	}
	session, ok := s.enter(r, speak)
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(retryLeast+rand.IntN(retryMost-retryLeast+1))) //nolint:gosec // spreads load, guards nothing
		refuse(w, http.StatusServiceUnavailable, "this hub takes no new connections now")
		return
	}
	hijacker := &batchHijacker{ResponseWriter: w, large: &s.buffers}
	if _, err := s.upgrader.Upgrade(hijacker, r, nil); err != nil {
		session.end()
		s.leave(session)
		s.log.Debug("a provider's handshake failed", "error", err)
		return
	}
	// The library refuses whoever sends anything before the handshake is through:
	// the reader is empty.
	hijacker.reader.Reset(hijacker.conn)
	in := &intake{conn: hijacker.conn, br: hijacker.reader, session: session, buffers: &s.buffers, budget: s.budget}
	// What the HTTP server keeps of a request is kept until its handler returns.
	go s.run(&socket{session: session, in: in, out: hijacker.conn, buffers: &s.buffers})
}

// run serves a socket. What goes wrong in reading it is its own affair, as it would
// be in a handler: the others stay.
func (s *Server) run(c *socket) {
	defer s.leave(c.session)
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a session broke down", "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
	}()
	c.run()
}

// dialectOf is what an upgrade asks for.
func dialectOf(r *http.Request) (speak func(*Session) (dialect, terms), ok bool) {
	offered := websocket.Subprotocols(r)
	if !websocket.IsWebSocketUpgrade(r) {
		return nil, false
	}
	for _, p := range offered {
		if p == Subprotocol {
			return speakV2, true
		}
	}
	return speakV1, len(offered) == 0
}

func refuse(w http.ResponseWriter, status int, text string) {
	http.Error(w, text, status)
}

// enter gives a socket its place.
func (s *Server) enter(r *http.Request, speak func(*Session) (dialect, terms)) (*Session, bool) {
	from := s.cfg.Addresses.Of(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || len(s.sessions) >= s.cfg.MaxSockets || !s.house.door.enter(from) {
		return nil, false
	}
	session := newSession(s.house, speak, from)
	s.sessions[session] = struct{}{}
	s.sockets.Add(1)
	s.house.counts.Sockets.Add(1)
	return session, true
}

// Waiting is how many sockets are held that are not registered.
func (s *Server) Waiting() int { return s.house.door.count() }

func (s *Server) leave(session *Session) {
	s.mu.Lock()
	delete(s.sessions, session)
	s.mu.Unlock()
	s.house.counts.Sockets.Add(-1)
	s.sockets.Done()
}

// Drain takes no further sockets and asks every agent to send nobody more. The
// agents are told to dial again at times spread out, so that the hub that takes
// them over is not run down. Those that cannot be told stay until Close, and
// registrations that wait are not answered any more.
func (s *Server) Drain() {
	all := s.stop()
	for _, session := range all {
		session.Drain(s.cfg.spread(len(all)))
	}
}

// Close ends every session and returns when their sockets are closed or ctx
// has ended. Agents that cannot be told when to come back do so at once: they
// are closed in random order, one by one, at Config.CloseRate and within
// Config.ReconnectSpread; when ctx ends, all that are left at once.
func (s *Server) Close(ctx context.Context) error {
	var paced []*Session
	all := s.stop()
	for _, session := range all {
		if session.terms.paced {
			paced = append(paced, session)
			continue
		}
		why := shuttingDown()
		why.ReconnectAfter = s.cfg.spread(len(all))
		session.Shut(why)
	}
	s.closePaced(ctx, paced)
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

// closePaced ends sessions one by one.
func (s *Server) closePaced(ctx context.Context, all []*Session) {
	rand.Shuffle(len(all), func(i, j int) { //nolint:gosec // spreads load, guards nothing
		all[i], all[j] = all[j], all[i]
	})
	span := min(s.cfg.ReconnectSpread, time.Duration(float64(len(all))/s.cfg.CloseRate*float64(time.Second)))
	began := time.Now()
	for i, session := range all {
		due := span * time.Duration(i) / time.Duration(len(all))
		if rest := due - time.Since(began); rest > 0 {
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		session.Shut(shuttingDown())
	}
}

func shuttingDown() *Closing { return closing(CodeShuttingDown, "the hub shuts down") }

// stop refuses new sockets and lists those there are.
func (s *Server) stop() []*Session {
	s.house.queue.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	all := make([]*Session, 0, len(s.sessions))
	for session := range s.sessions {
		all = append(all, session)
	}
	return all
}

// Agents are told to come back after soonest at least, and each makes the time
// longer over which all of them do.
const (
	soonest       = 100 * time.Millisecond
	spreadForEach = 5 * time.Millisecond
)

// spread is when an agent is told to come back that is one of so many.
func (c Config) spread(agents int) time.Duration {
	over := min(c.ReconnectSpread, time.Duration(agents)*spreadForEach)
	return soonest + rand.N(over) //nolint:gosec // spreads load, guards nothing
}
