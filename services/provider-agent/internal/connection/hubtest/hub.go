// Package hubtest is the hub's end of a provider connection for tests of the
// agent: a real WebSocket server that a test drives frame by frame. It checks
// what every hub checks (frame numbers and credit) and fails the test when the
// agent breaks a rule; it decides nothing by itself but to answer pings, to grant
// credit unless told not to, and to end an older session of a node that registers
// anew without having drained.
//
//	hub := hubtest.New(t)
//	… point the agent at hub.URL …
//	session := hub.Accept()        // the agent has dialled and sent REGISTER
//	session.Ack()
//	request := session.Open("m", `{"model":"m"}`)
//	body, end := request.Answer()
//
// Waiting is bounded by 20 s, which is virtual inside a synctest bubble if the
// hub was made by NewPiped.
package hubtest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
)

const (
	patience = 90 * time.Second
	// backlog bounds the frames that a test has not read yet.
	backlog = 1 << 16
)

// Hub accepts agents.
type Hub struct {
	// URL is the endpoint, ending in /ws.
	URL string

	t        testing.TB
	listener net.Listener
	sessions chan *Session
	refusal  chan http.HandlerFunc

	mu    sync.Mutex
	dials int
	live  map[string]*Session // by node: the session that was acknowledged last
}

// New starts a hub on the loopback interface that stops with the test.
func New(t testing.TB) *Hub {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, listener)
}

// NewPiped starts a hub that only Dial reaches, through memory, so that a test in a
// synctest bubble controls the time.
func NewPiped(t testing.TB) *Hub {
	t.Helper()
	return serve(t, &pipes{conns: make(chan net.Conn), closed: make(chan struct{})})
}

func serve(t testing.TB, listener net.Listener) *Hub {
	h := &Hub{
		URL: "ws://" + listener.Addr().String() + "/ws", t: t, listener: listener,
		sessions: make(chan *Session, 64), refusal: make(chan http.HandlerFunc, 64),
		live: map[string]*Session{},
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(listener) }) // ends with Close
	t.Cleanup(func() {
		_ = server.Close()
		work.Wait()
	})
	return h
}

// Dial connects to a piped hub.
func (h *Hub) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.mu.Lock()
	h.dials++
	h.mu.Unlock()
	return h.listener.(*pipes).dial(ctx)
}

// Dials is how often Dial was called.
func (h *Hub) Dials() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

// Refuse answers the next handshake with handler.
func (h *Hub) Refuse(handler http.HandlerFunc) { h.refusal <- handler }

// ServeHTTP upgrades every request.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case handler := <-h.refusal:
		handler(w, r)
		return
	default:
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{agentwire.Subprotocol}}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the agent left
	}
	s := newSession(h, ws)
	h.sessions <- s
	s.read()
}

// Accept waits for an agent and its REGISTER.
func (h *Hub) Accept() *Session {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case s := <-h.sessions:
		register := s.Control().GetRegister()
		if register == nil {
			h.t.Fatal("the first frame is not REGISTER")
		}
		s.Register = register
		return s
	case <-ctx.Done():
		h.t.Fatal("no agent has dialled")
		return nil
	}
}

// replace puts a session in the place of its node's older one. The older one may finish
// its open requests if it drains; else it is superseded.
func (h *Hub) replace(s *Session) {
	node := s.Register.GetNodeId()
	h.mu.Lock()
	older := h.live[node]
	h.live[node] = s
	h.mu.Unlock()
	if older != nil && older != s && !older.Drains() {
		older.Refuse(agentwire.CodeSuperseded, 0)
	}
}

// AcceptLive is Accept and Ack.
func (h *Hub) AcceptLive() *Session {
	h.t.Helper()
	s := h.Accept()
	s.Ack()
	return s
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for dial.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr is a name that resolves nowhere.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "hub.invalid:80" }
