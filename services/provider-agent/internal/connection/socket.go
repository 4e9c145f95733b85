package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
)

// writeBuffer holds the largest DATA frame, so that none is fragmented.
const writeBuffer = agentwire.MaxData + 128

// socket is a WebSocket whose writes are collected until flush.
type socket struct {
	ws    *websocket.Conn
	under *collector
	clock clock.Clock
}

// collector is a network connection that can keep what is written until flush. A batch of
// frames then costs one system call, below TLS too.
type collector struct {
	net.Conn
	mu         sync.Mutex
	collecting bool
	buf, spare []byte
}

// Write collects bytes. Only the writer's goroutine writes much; bytes of others (TLS
// alerts) are sent with the next batch.
func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.collecting {
		return c.Conn.Write(p)
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

func (c *collector) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collecting = true
}

func (c *collector) flush() error {
	c.mu.Lock()
	out := c.buf
	c.buf = c.spare[:0]
	c.mu.Unlock()
	var err error
	if len(out) > 0 {
		_, err = c.Conn.Write(out)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare = nil
	if cap(out) <= 2*batchBytes {
		c.spare = out
	}
	return err
}

// dial opens a socket. A refusal of the hub is returned as an ending, which may have a
// pause.
func dial(ctx context.Context, cfg Config, deps Deps) (*socket, *ending) {
	open := deps.Dial
	if open == nil {
		open = (&net.Dialer{}).DialContext
	}
	var under *collector
	dialer := websocket.Dialer{
		NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := open(ctx, network, address)
			if err != nil {
				return nil, err
			}
			under = &collector{Conn: conn}
			return under, nil
		},
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout, Subprotocols: []string{agentwire.Subprotocol},
		ReadBufferSize: agentwire.MaxData, WriteBufferSize: writeBuffer,
	}
	header := http.Header{"User-Agent": {"svc-agent/" + cfg.Version}}
	ws, resp, err := dialer.DialContext(ctx, cfg.URL, header)
	if err != nil {
		return nil, refused(resp, err)
	}
	if ws.Subprotocol() != agentwire.Subprotocol {
		_ = ws.Close()
		return nil, &ending{text: "the hub does not speak " + agentwire.Subprotocol}
	}
	ws.SetReadLimit(agentwire.MaxMessage)
	under.collect()
	return &socket{ws: ws, under: under, clock: deps.Clock}, nil
}

// refused describes a handshake that failed.
func refused(resp *http.Response, err error) *ending {
	if resp == nil {
		return &ending{text: fmt.Sprintf("cannot connect: %v", err)}
	}
	defer resp.Body.Close()
	why := &ending{text: "the hub answers " + resp.Status}
	// The library has read up to 1 KiB of the body.
	if text, err := io.ReadAll(io.LimitReader(resp.Body, 256)); err == nil && len(text) > 0 {
		why.text += ": " + clean(string(bytes.TrimSpace(text)))
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		why.after = time.Duration(min(seconds, int(maxHubPause/time.Second))) * time.Second
	}
	return why
}

// read hands every message to the session until the socket or the session ends. It waits
// for the socket only.
func (c *socket) read(s *session) *ending {
	alive := func() { _ = c.ws.SetReadDeadline(c.clock.Now().Add(silence)) }
	c.ws.SetPingHandler(func(payload string) error {
		alive()
		s.onPing(payload)
		return nil
	})
	c.ws.SetPongHandler(func(payload string) error {
		alive()
		s.onPong(payload)
		return nil
	})
	// Only the writer writes; it closes when the session is over.
	c.ws.SetCloseHandler(func(int, string) error { return nil })
	var buf bytes.Buffer
	for {
		alive()
		kind, r, err := c.ws.NextReader()
		if err != nil {
			return lost(err)
		}
		if kind != websocket.BinaryMessage {
			return protocolError("a message is not binary")
		}
		buf.Reset()
		if _, err := buf.ReadFrom(r); err != nil {
			return lost(err)
		}
		if why := s.handle(buf.Bytes()); why != nil {
			return why
		}
	}
}

// lost describes the end of a socket.
func lost(err error) *ending {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return &ending{text: fmt.Sprintf("the hub closed the connection (code %d %s)", closed.Code, clean(closed.Text))}
	}
	if errors.Is(err, websocket.ErrReadLimit) {
		return protocolError("a message is larger than 64 KiB")
	}
	return &ending{text: fmt.Sprintf("the connection was lost: %v", err)}
}

// write sends what the session has, until the session is over or the socket fails. Then
// it closes the socket.
func (c *socket) write(s *session) *ending {
	defer func() { _ = c.ws.Close() }() // nothing more is sent
	var b batch
	for {
		if err := s.next(&b); err != nil {
			return &ending{text: fmt.Sprintf("encode a frame: %v", err)}
		}
		if b.empty() {
			<-s.wake
			continue
		}
		if err := c.send(&b); err != nil {
			// The library may have queued a close frame of its own.
			_ = c.under.flush()
			return &ending{text: fmt.Sprintf("the connection was lost: %v", err)}
		}
		if b.drains {
			s.ask()
		}
		if b.closing != nil {
			return nil
		}
	}
}

// send writes a batch with one system call.
func (c *socket) send(b *batch) error {
	deadline := c.clock.Now().Add(writeTimeout)
	if err := c.ws.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if b.pong != nil {
		if err := c.ws.WriteControl(websocket.PongMessage, b.pong, deadline); err != nil {
			return err
		}
	}
	if b.ping {
		if err := c.ws.WriteControl(websocket.PingMessage, nil, deadline); err != nil {
			return err
		}
	}
	if b.asks {
		if err := c.ws.WriteControl(websocket.PingMessage, []byte(askHeard), deadline); err != nil {
			return err
		}
	}
	start := 0
	for _, end := range b.ends {
		if err := c.ws.WriteMessage(websocket.BinaryMessage, b.bytes[start:end]); err != nil {
			return err
		}
		start = end
	}
	if b.closing != nil {
		text := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		if err := c.ws.WriteControl(websocket.CloseMessage, text, deadline); err != nil {
			return err
		}
	}
	return c.under.flush()
}
