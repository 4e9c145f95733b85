// Package wsconn is RFC 6455 as a hub speaks it, and nothing above it: bytes of a
// socket become messages, and messages become bytes. It knows no session, no agent
// and no form of a message.
//
// One goroutine reads a connection (Conn.Read) and hands each message and each ping
// to a Handler. Another goroutine writes: what it writes is kept until Conn.Flush, so
// that a batch leaves with one system call. Only the answer to a close frame is
// written by the reader.
//
// A connection that waits holds no buffer. When something is there, it borrows 16 KiB that
// connections share, and gives the buffer back when all of that is read. Messages are read
// into buffers of 65 KiB that all connections share. A larger message gets a buffer of its own, which grows as
// its bytes arrive and is taken out of a budget; where there is no room, the message
// is thrown away and the handler hears of its beginning. A message that has begun
// must arrive in time.
//
// No extension is ever agreed on. A breach of the standard ends Conn.Read with a
// *Violation, which has the status of the close frame that is due.
package wsconn

import (
	"io"
	"net"
	"time"
)

// Kind is what the messages of a connection are. A connection takes one kind.
type Kind byte

// The kinds of messages.
const (
	Text   = Kind(opText)
	Binary = Kind(opBinary)
)

// Config is what differs between connections.
type Config struct {
	Kind Kind
	// WriteTimeout bounds one write to the socket.
	WriteTimeout time.Duration
	// LargeTimeout is how long a message may take to arrive that was not there at once.
	LargeTimeout time.Duration
}

// Conn is a connection. Read and Discard are for one goroutine, the methods that
// write for another. Close may be called by any.
type Conn struct {
	out  batch
	br   input
	cfg  Config
	pool *Pool
}

func newConn(conn net.Conn, cfg Config, pool *Pool) *Conn {
	c := &Conn{out: batch{Conn: conn, pool: pool}, cfg: cfg, pool: pool}
	c.br.readFrom(&c.out, conn, pool)
	return c
}

// Message keeps a message in three parts for the next flush. A large body is not
// copied: it is written at once, behind what is kept.
func (c *Conn) Message(head, body []byte, tail string) error {
	return c.out.message(byte(c.cfg.Kind), head, body, tail, c.cfg.WriteTimeout)
}

// Ping keeps a ping for the next flush.
func (c *Conn) Ping() { c.out.frame(opPing, nil) }

// Pong keeps the answer to a ping for the next flush.
func (c *Conn) Pong(payload []byte) { c.out.frame(opPong, payload) }

// CloseFrame keeps a close frame for the next flush. Nothing that is kept behind it
// is written. The reason is ASCII, and is cut to what fits.
func (c *Conn) CloseFrame(status uint16, reason string) {
	c.out.frame(opClose, closePayload(status, reason))
}

// Flush writes what is kept.
func (c *Conn) Flush() error { return c.out.flush(c.cfg.WriteTimeout) }

// Close closes the socket, which ends Read.
func (c *Conn) Close() { c.out.Close() }

// Discard reads on behind a breach until either side closes, so that the peer can
// read why.
func (c *Conn) Discard() { _, _ = io.Copy(io.Discard, &c.br) }
