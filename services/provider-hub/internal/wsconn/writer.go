package wsconn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// batch gathers the frames that are written between two flushes, so that they leave
// with one system call. Until begin it passes writes through, for the handshake. It
// is safe for concurrent use: the reader answers a close frame itself.
type batch struct {
	net.Conn
	pool *Pool

	// reads counts what came from the peer, whatever it was, and unheard the
	// bytes that were written since.
	reads   atomic.Uint64
	unheard atomic.Int64

	mu     sync.Mutex
	begun  bool
	closed bool // a close frame was written; nothing may follow it
	buf    []byte
	lent   *[]byte // what buf began in, if the pool lent it for more than keptBatch bytes
}

const (
	// keptBatch is how much a connection keeps for its next batch, in bytes.
	keptBatch = 4 << 10
	// maxCopied is how large a body may be that is copied, in bytes.
	maxCopied = 32 << 10
	// maxHead is more than the head of a frame takes, in bytes.
	maxHead = 16
)

// Read reads from the socket.
func (b *batch) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 {
		b.heard()
	}
	return n, err
}

// heard notes that the peer lives.
func (b *batch) heard() {
	b.reads.Add(1)
	b.unheard.Store(0)
}

// Write writes p, or keeps it for the next flush.
func (b *batch) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun {
		return b.Conn.Write(p)
	}
	b.growLocked(len(p))
	b.buf = append(b.buf, p...)
	return len(p), nil
}

// begin keeps all that is written from now on for the next flush.
func (b *batch) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = true
}

// frame keeps a frame for the next flush.
func (b *batch) frame(opcode byte, payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed = opcode == opClose
	b.growLocked(len(payload) + maxHead)
	b.buf = appendFrame(b.buf, opcode, payload)
}

// message keeps a message in three parts for the next flush. A large body is not
// copied: it is written at once, behind what is kept.
func (b *batch) message(opcode byte, head, body []byte, tail string, timeout time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.growLocked(maxHead + len(head) + len(tail))
	b.buf = append(appendHead(b.buf, opcode, len(head)+len(body)+len(tail)), head...)
	if len(body) <= maxCopied {
		b.growLocked(len(body) + len(tail))
		b.buf = append(append(b.buf, body...), tail...)
		return nil
	}
	if err := b.flushLocked(timeout); err != nil {
		return err
	}
	b.unheard.Add(int64(len(body)))
	if _, err := b.Conn.Write(body); err != nil {
		return err
	}
	b.buf = append(b.buf, tail...)
	return nil
}

// growLocked makes room for n bytes more.
func (b *batch) growLocked(n int) {
	if need := len(b.buf) + n; b.lent == nil && need > keptBatch && need > cap(b.buf) {
		b.lent = b.pool.Get()
		b.buf = append((*b.lent)[:0], b.buf...)
	}
}

// flush writes what was gathered. A large buffer goes back.
func (b *batch) flush(timeout time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flushLocked(timeout)
}

func (b *batch) flushLocked(timeout time.Duration) error {
	if len(b.buf) == 0 {
		return nil
	}
	if err := b.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	b.unheard.Add(int64(len(b.buf)))
	_, err := b.Conn.Write(b.buf)
	b.buf = b.buf[:0]
	if b.lent != nil {
		b.pool.Put(b.lent)
		b.lent = nil
		b.buf = nil
	}
	return err
}
