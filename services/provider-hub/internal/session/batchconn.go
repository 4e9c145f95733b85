package session

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// batchConn gathers what is written between two flushes, so that the frames of
// a batch leave with one system call. Until batching is set it passes writes
// through, for the handshake.
type batchConn struct {
	net.Conn
	large *sync.Pool // of *[]byte, for batches of more than keptBatch bytes

	mu       sync.Mutex
	batching bool
	buf      []byte
	lent     *[]byte // what buf began in, if that is of large
}

// keptBatch is how much a connection keeps for its next batch.
const keptBatch = 4 << 10

// Write keeps p for the next flush. The WebSocket library may itself write a
// close frame from the reader's goroutine, hence the mutex.
func (c *batchConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.batching {
		return c.Conn.Write(p)
	}
	if need := len(c.buf) + len(p); c.lent == nil && need > keptBatch && need > cap(c.buf) {
		c.lent = c.large.Get().(*[]byte)
		c.buf = append((*c.lent)[:0], c.buf...)
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

// SetWriteDeadline does nothing: flush sets one for each batch.
func (c *batchConn) SetWriteDeadline(time.Time) error { return nil }

func (c *batchConn) batch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batching = true
}

// flush writes what was gathered. A large buffer goes back.
func (c *batchConn) flush(timeout time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.buf) == 0 {
		return nil
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	if c.lent != nil {
		c.large.Put(c.lent)
		c.lent = nil
		c.buf = nil
	}
	return err
}

// batchHijacker makes the WebSocket library take its connection through a
// batchConn.
type batchHijacker struct {
	http.ResponseWriter
	large *sync.Pool
	conn  *batchConn
}

var errNoHijack = errors.New("the HTTP server cannot hand over its connection")

// Hijack implements http.Hijacker.
func (h *batchHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := h.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errNoHijack
	}
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = &batchConn{Conn: conn, large: h.large}
	return h.conn, rw, nil
}
