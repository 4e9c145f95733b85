package gate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// endpoint is a Gate over pipes.
type endpoint struct {
	gate   *Gate
	desk   *sessiontest.Registrar
	pipes  *sessiontest.Pipes
	counts *Counts
}

// serve is a Gate that accepts.
func serve(t testing.TB, cfg Config) *endpoint {
	t.Helper()
	e := hold(t, cfg)
	e.gate.Accept()
	return e
}

// hold is a Gate that does not accept yet.
func hold(t testing.TB, cfg Config) *endpoint {
	t.Helper()
	e := &endpoint{desk: &sessiontest.Registrar{}, pipes: sessiontest.NewPipes(), counts: &Counts{}}
	e.gate = New(cfg, Deps{
		Registrar: e.desk, Clock: clock.System, Log: slog.New(slog.DiscardHandler), Counts: e.counts,
	})
	h := &http.Server{Handler: e.gate}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(e.pipes)
	}()
	t.Cleanup(func() {
		if err := e.gate.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = h.Close()
		<-done
	})
	return e
}

// RFC 6455, written down once more: these tests speak bytes of their own.
const (
	opContinuation byte = 0x0
	opText         byte = 0x1
	opBinary       byte = 0x2
	opClose        byte = 0x8
	opPing         byte = 0x9
	opPong         byte = 0xA
	finBit              = 0x80
	opcodeBits          = 0x0f
	maskBit             = 0x80
)

// masked is a frame as a client sends it.
func masked(first byte, payload []byte) []byte {
	frame := []byte{first}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, maskBit|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, maskBit|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, maskBit|127), uint64(n))
	}
	key := []byte{0x11, 0x22, 0x33, 0x44}
	frame = append(frame, key...)
	for i, b := range payload {
		frame = append(frame, b^key[i%4])
	}
	return frame
}

// handshake asks for an upgrade; an empty line follows.
const handshake = "GET /ws HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// plainConn upgrades a connection by hand, so that anything can be written to
// it.
func (e *endpoint) plainConn(t *testing.T, subprotocol string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := e.pipes.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	head := handshake
	if subprotocol != "" {
		head += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgraded: answer.StatusCode: got %d, want 101", answer.StatusCode)
	}
	if got := answer.Header.Get("Sec-WebSocket-Protocol"); got != subprotocol {
		t.Fatalf("upgraded to subprotocol: got %q, want %q", got, subprotocol)
	}
	return conn, r
}

// readServerFrame reads a short frame.
func readServerFrame(r *bufio.Reader) (opcode byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := int(head[1])
	if n == 126 {
		long := make([]byte, 2)
		if _, err := io.ReadFull(r, long); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint16(long))
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0] & opcodeBits, payload, err
}

// closeFrame reads frames until a close frame, and returns the status of the close frame.
// It returns 0 where no close frame comes.
func closeFrame(r *bufio.Reader) uint16 {
	for {
		opcode, payload, err := readServerFrame(r)
		switch {
		case err != nil:
			return 0
		case opcode == opClose && len(payload) == 0:
			return wsconn.StatusNone
		case opcode == opClose:
			return binary.BigEndian.Uint16(payload)
		}
	}
}

// dial connects over pipes.
func (e *endpoint) dial(t *testing.T, opts fakeagent.Options) (*fakeagent.Agent, error) {
	opts.NetDial = e.pipes.Dial
	if opts.Models == nil {
		opts.Models = []string{"m"}
	}
	return fakeagent.Dial(t.Context(), "ws://hub/ws", opts)
}

func (e *endpoint) mustDial(t *testing.T, opts fakeagent.Options) *fakeagent.Agent {
	t.Helper()
	a, err := e.dial(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// farewell waits for the end of a connection and tells why and after what time.
func farewell(t *testing.T, a *fakeagent.Agent, since time.Time) (string, time.Duration) {
	t.Helper()
	<-a.Closed()
	a.Close()
	return a.Farewell().GetCode(), time.Since(since)
}

// old is an agent of dialect v1 that does nothing by itself.
type old struct {
	t    testing.TB
	ws   *websocket.Conn
	said chan said
	// left is why the connection ended, once gone is closed.
	left error
	gone chan struct{}
}

// said is a message of the hub.
type said struct {
	Type      string         `json:"type"`
	RequestID string         `json:"request_id"`
	Payload   map[string]any `json:"payload"`
}

// oldAgent connects without a subprotocol.
func (e *endpoint) oldAgent(t testing.TB) *old {
	t.Helper()
	a, err := e.dialOld(t)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (e *endpoint) dialOld(t testing.TB) (*old, error) {
	dialer := websocket.Dialer{NetDialContext: e.pipes.Dial}
	ws, _, err := dialer.DialContext(t.Context(), "ws://hub/ws", http.Header{})
	if err != nil {
		return nil, err
	}
	a := &old{t: t, ws: ws, said: make(chan said, 1024), gone: make(chan struct{})}
	go a.listen()
	t.Cleanup(a.close)
	return a, nil
}

func (a *old) listen() {
	defer close(a.gone)
	for {
		var m said
		if a.left = a.ws.ReadJSON(&m); a.left != nil {
			return
		}
		a.said <- m
	}
}

func (a *old) close() {
	_ = a.ws.Close()
	<-a.gone
}

// send sends a message as it stands.
func (a *old) send(text string) {
	a.t.Helper()
	if err := a.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		a.t.Error(err)
	}
}

// hears waits for a message of the hub.
func (a *old) hears() said {
	a.t.Helper()
	select {
	case m := <-a.said:
		return m
	case <-a.gone:
		select {
		case m := <-a.said:
			return m
		default:
		}
		a.t.Fatalf("the connection ended: %v", a.left)
	case <-time.After(10 * time.Minute):
		a.t.Fatal("the hub says nothing")
	}
	return said{}
}

// silent reports whether the hub says nothing for a while.
func (a *old) silent(d time.Duration) bool {
	select {
	case <-a.said:
		return false
	case <-a.gone:
		return false
	case <-time.After(d):
		return true
	}
}

// ends waits for the end of the connection and gives its status.
func (a *old) ends() int {
	a.t.Helper()
	select {
	case <-a.gone:
	case <-time.After(10 * time.Minute):
		a.t.Fatal("the connection stays open")
	}
	var closed *websocket.CloseError
	if errors.As(a.left, &closed) {
		return closed.Code
	}
	return 0
}

// register registers and waits for the answer.
func (a *old) register(key, node string, models ...string) said {
	a.t.Helper()
	a.send(sessiontest.RegisterText(key, node, models...))
	return a.hears()
}
