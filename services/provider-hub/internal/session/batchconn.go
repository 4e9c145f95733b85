package session

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// batchConn gathers the frames that are written between two flushes, so that
// they leave with one system call. Until batching is set it passes writes
// through, for the handshake. It is safe for concurrent use: the reader answers
// a close frame itself.
type batchConn struct {
	net.Conn
	large *sync.Pool // of *[]byte, for batches of more than keptBatch bytes

	// reads counts what came from the peer, whatever it was, and unheard the
	// bytes that were written since.
	reads   atomic.Uint64
	unheard atomic.Int64

	mu       sync.Mutex
	batching bool
	closed   bool // a close frame was written; nothing may follow it
	buf      []byte
	lent     *[]byte // what buf began in, if that is of large
}

// keptBatch is how much a connection keeps for its next batch.
const keptBatch = 4 << 10

// Read notes that the peer lives.
func (c *batchConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.reads.Add(1)
		c.unheard.Store(0)
	}
	return n, err
}

// Write writes p, or keeps it for the next flush.
func (c *batchConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.batching {
		return c.Conn.Write(p)
	}
	c.keep(len(p))
	c.buf = append(c.buf, p...)
	return len(p), nil
}

// frame keeps a frame for the next flush.
func (c *batchConn) frame(opcode byte, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = opcode == opClose
	c.keep(len(payload) + maxHead)
	c.buf = appendFrame(c.buf, opcode, payload)
}

// message keeps a message in three parts for the next flush. A large body is not
// copied: it is written at once, behind what is kept.
func (c *batchConn) message(opcode byte, head, body []byte, tail string, timeout time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.keep(maxHead + len(head) + len(tail))
	c.buf = append(appendHead(c.buf, opcode, len(head)+len(body)+len(tail)), head...)
	if len(body) <= maxCopied {
		c.keep(len(body) + len(tail))
		c.buf = append(append(c.buf, body...), tail...)
		return nil
	}
	if err := c.flushLocked(timeout); err != nil {
		return err
	}
	c.unheard.Add(int64(len(body)))
	if _, err := c.Conn.Write(body); err != nil {
		return err
	}
	c.buf = append(c.buf, tail...)
	return nil
}

// maxCopied is how large a body may be that is copied, in bytes.
const maxCopied = 32 << 10

// close keeps a close frame for the next flush.
func (c *batchConn) close(status uint16, reason string) {
	c.frame(opClose, closePayload(status, reason))
}

// maxHead is more than the head of a frame takes.
const maxHead = 16

// keep makes room for n bytes more. Needs the mutex.
func (c *batchConn) keep(n int) {
	if need := len(c.buf) + n; c.lent == nil && need > keptBatch && need > cap(c.buf) {
		c.lent = c.large.Get().(*[]byte)
		c.buf = append((*c.lent)[:0], c.buf...)
	}
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
	return c.flushLocked(timeout)
}

// flushLocked needs the mutex.
func (c *batchConn) flushLocked(timeout time.Duration) error {
	if len(c.buf) == 0 {
		return nil
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	c.unheard.Add(int64(len(c.buf)))
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	if c.lent != nil {
		c.large.Put(c.lent)
		c.lent = nil
		c.buf = nil
	}
	return err
}

// batchHijacker makes the WebSocket library, which makes the handshake, take its
// connection through a batchConn.
type batchHijacker struct {
	http.ResponseWriter
	large  *sync.Pool
	conn   *batchConn
	reader *bufio.Reader
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
	h.conn, h.reader = &batchConn{Conn: conn, large: h.large}, rw.Reader
	return h.conn, rw, nil
}
