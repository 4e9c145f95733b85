package fakeagent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// pipes is a network in memory, which testing/synctest can wait on. Nobody
// listens while down is set.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	down  bool
	dials []time.Time
}

var errRefused = errors.New("connection refused")

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	p.dials = append(p.dials, time.Now())
	down := p.down
	p.mu.Unlock()
	if down {
		return nil, errRefused
	}
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) refuse(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// pauses are the times between dials, from the nth on.
func (p *pipes) pauses(from int) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Duration
	for i := from; i < len(p.dials); i++ {
		all = append(all, p.dials[i].Sub(p.dials[i-1]))
	}
	return all
}

// serve runs an HTTP server on the pipes for the length of the test.
func serve(t *testing.T, handler http.HandlerFunc) *pipes {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(p) // until it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close() // ends Serve
		<-done
	})
	return p
}

// v1Hub upgrades and hands each socket to a script, which ends it by
// returning.
func v1Hub(t *testing.T, script func(*v1Peer)) *pipes {
	t.Helper()
	up := websocket.Upgrader{}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.NetConn().Close()
		script(&v1Peer{t: t, ws: ws, request: r})
	})
}

// v1Peer is the hub's end of one socket.
type v1Peer struct {
	t       *testing.T
	ws      *websocket.Conn
	request *http.Request
}

// next is the next message, or ok is false when there is none.
func (p *v1Peer) next() (f V1Frame, ok bool) {
	_, b, err := p.ws.ReadMessage()
	if err != nil {
		return f, false
	}
	if err := json.Unmarshal(b, &f); err != nil {
		p.t.Errorf("%s: %v", b, err)
	}
	return f, true
}

// await is the next message of a kind.
func (p *v1Peer) await(kind string) V1Frame {
	for {
		f, ok := p.next()
		if !ok || f.Type == kind {
			return f
		}
	}
}

func (p *v1Peer) send(kind, id string, payload any) {
	b, err := json.Marshal(payload)
	if err != nil {
		p.t.Error(err)
	}
	_ = p.ws.WriteJSON(V1Frame{Type: kind, RequestID: id, Payload: b}) // the agent may be gone
}

func (p *v1Peer) ack(f V1Frame) {
	p.send("ack", f.RequestID, map[string]any{"request_id": f.RequestID, "success": true, "message": f.Type})
}

// welcome takes the registration and what comes behind it.
func (p *v1Peer) welcome() {
	p.ack(p.await("register"))
	p.await("model_health_update")
}

// obey acknowledges what is to be acknowledged until the socket ends.
func (p *v1Peer) obey() {
	for {
		f, ok := p.next()
		if !ok {
			return
		}
		if f.Type == "register" || f.Type == "heartbeat" {
			p.ack(f)
		}
	}
}

func (p *v1Peer) close(code int) {
	// the agent may be gone
	_ = p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Minute))
	p.await("nothing")
}

// startV1 runs an agent on the pipes for the length of the test.
func startV1(t *testing.T, p *pipes, opts V1Options) *V1 {
	t.Helper()
	opts.URL, opts.NetDial = "ws://hub", p.dial
	if opts.Models == nil {
		opts.Models = []string{"Qwen/Qwen3-8B"}
	}
	a := StartV1(opts)
	t.Cleanup(a.Stop)
	return a
}

func await(t *testing.T, a *V1, such func(V1State) bool) {
	t.Helper()
	if err := a.Await(t.Context(), such); err != nil {
		t.Fatal(err)
	}
}
