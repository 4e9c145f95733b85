package wsconn

import (
	"io"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/ids"
)

// Handler takes what Conn.Read reads, in the goroutine of Read.
type Handler interface {
	// Closing reports whether messages have no effect any more. They are not kept
	// then.
	Closing() bool
	// MaxMessage bounds a message, in bytes.
	MaxMessage() int64
	// Owner is the provider whose share of the budget a large message takes.
	Owner() ids.ProviderID
	// Keeps reports whether a message of so many bytes is kept; else it is thrown
	// away.
	Keeps(size int64) bool
	// Message takes a message, which is valid until it returns.
	Message(msg []byte)
	// Discarded hears of a message that was thrown away: the beginning of it, which
	// is valid until Discarded returns, and its size in bytes.
	Discarded(head []byte, size int64)
	// TooLarge hears of a frame of length bytes that makes its message larger than
	// MaxMessage. before is how much of the message came earlier. Read then fails.
	TooLarge(before, length int64)
	// Ping takes a ping, whose payload is valid until it returns.
	Ping(payload []byte)
	// Pong takes a pong.
	Pong()
}

// maxFragments bounds the frames of a message: libraries cut it into pieces of a few
// KiB.
const maxFragments = 16_384

// Read hands every message to h until the socket fails or is closed. What it returns
// is not nil: a *Violation for a breach.
func (c *Conn) Read(h Handler) error {
	r := reader{Conn: c, h: h}
	for {
		f, err := r.frame() // an idle connection waits here, on a small stack
		if err == nil {
			err = r.next(f)
		}
		if err != nil {
			return err
		}
	}
}

// reader is a connection that is read for a handler.
type reader struct {
	*Conn
	h Handler
}

// message is a message of the peer while it is being read.
type message struct {
	buf     []byte
	size    int64 // of what arrived, kept or not
	own     int64 // bytes of buf that are out of the budget
	of      ids.ProviderID
	dropped bool // it is thrown away; buf is what came before
	timed   bool // it must arrive in time
	head    []byte
}

// next reads the message that begins with f. Control frames before and within it are
// answered.
func (r *reader) next(f frameHead) error {
	if f.opcode == opContinuation {
		return breach("a continuation of nothing")
	}
	opcode := f.opcode
	shared := r.pool.Get()
	defer r.pool.Put(shared)
	m := &message{buf: (*shared)[:0], head: *shared, dropped: r.h.Closing()}
	defer r.free(m)
	for n := 1; ; n++ {
		if err := r.hurry(m, f); err != nil {
			return err
		}
		if err := r.gather(m, f); err != nil {
			return err
		}
		if f.final {
			return r.hand(m, opcode)
		}
		if n == maxFragments {
			return &Violation{StatusPolicy, "a message has too many fragments"}
		}
		var err error
		if f, err = r.frame(); err != nil {
			return err
		}
		if f.opcode != opContinuation {
			return breach("a message begins within another")
		}
	}
}

// hand gives a message to the handler.
func (r *reader) hand(m *message, opcode byte) error {
	if opcode != byte(r.cfg.Kind) {
		return &Violation{StatusUnsupported, "messages of this kind are not taken"}
	}
	r.pool.counts.FramesIn.Add(1)
	switch {
	case r.h.Closing():
	case m.dropped:
		r.pool.counts.Discarded.Add(1)
		r.h.Discarded(m.buf, m.size)
	case opcode == opText && !utf8.Valid(m.buf):
		return &Violation{StatusInvalidPayload, "a text message is not UTF-8"}
	default:
		r.h.Message(m.buf)
	}
	return nil
}

// frame reads up to the next data frame.
func (r *reader) frame() (frameHead, error) {
	for {
		f, err := readHead(&r.br)
		if err != nil || f.opcode < opClose {
			return f, err
		}
		if err := r.control(f); err != nil {
			return f, err
		}
	}
}

// control takes a control frame.
func (r *reader) control(f frameHead) error {
	payload, err := r.br.Peek(int(f.length)) // at most 125, and every buffer is larger
	if err != nil {
		return err
	}
	unmask(f.mask, 0, payload)
	_, _ = r.br.Discard(len(payload))
	switch f.opcode {
	case opPing:
		r.h.Ping(payload)
	case opPong:
		r.h.Pong()
	default:
		status, err := closeStatus(payload)
		if err != nil {
			return err
		}
		r.CloseFrame(status, "")
		_ = r.Flush() // the socket is closed either way
		return errPeerClosed
	}
	return nil
}

// gather reads the payload of a data frame.
func (r *reader) gather(m *message, f frameHead) error {
	if f.length > r.h.MaxMessage()-m.size { // a sum could overflow
		r.h.TooLarge(m.size, f.length)
		return &Violation{StatusTooBig, "a message is too large"}
	}
	m.size += f.length
	for offset := 0; int64(offset) < f.length; {
		rest := int(f.length) - offset
		if !m.dropped && len(m.buf) == cap(m.buf) {
			r.grow(m, rest, f.final)
		}
		if m.dropped {
			_, err := r.br.Discard(rest)
			return err
		}
		part := m.buf[len(m.buf):min(cap(m.buf), len(m.buf)+rest)]
		n, err := io.ReadFull(&r.br, part)
		if err != nil {
			return err
		}
		unmask(f.mask, offset, part)
		m.buf = m.buf[:len(m.buf)+n]
		offset += n
	}
	return nil
}

// grow makes room for at least a part of what is still to come, or throws the
// message away. Of a frame that is not the last, rest says little: libraries cut
// messages into pieces of a few KiB, and room for one piece at a time would have all
// that is there copied for each.
func (r *reader) grow(m *message, rest int, last bool) {
	// A length that is only announced takes nothing from others: there is room
	// for as much as has arrived.
	more := max(len(m.buf), bufferBytes)
	if last {
		more = min(more, rest)
	}
	size := min(int64(len(m.buf)+more), r.h.MaxMessage())
	if m.own == 0 {
		m.of = r.h.Owner()
	}
	if r.h.Closing() || !r.h.Keeps(size) || !r.pool.large.Take(m.of, size-m.own) {
		m.dropped, m.buf = true, m.head[:min(len(m.head), len(m.buf))]
		r.pool.large.Give(m.of, m.own)
		m.own = 0
		return
	}
	m.own = size
	m.buf = append(make([]byte, 0, size), m.buf...)
}

// hurry sets the time for a message that is not all here, because it holds a buffer.
func (r *reader) hurry(m *message, f frameHead) error {
	if m.timed || f.final && f.length <= int64(r.br.Buffered()) {
		return nil
	}
	m.timed = true
	return r.out.SetReadDeadline(time.Now().Add(r.cfg.LargeTimeout))
}

// free gives back what a message took.
func (r *reader) free(m *message) {
	if m.own > 0 {
		r.pool.large.Give(m.of, m.own)
	}
	if m.timed {
		_ = r.out.SetReadDeadline(time.Time{}) // a socket that cannot is closed anyway
	}
}
