package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/ids"
)

const (
	// bufferBytes is the size of the buffers that sockets share; a message that
	// does not fit gets one of its own, out of the budget.
	bufferBytes = 64<<10 + 1<<10
	// maxFragments bounds the frames of a message: libraries cut it into pieces
	// of a few KiB.
	maxFragments = 16_384
)

// budgetShares is how many providers at least share a budget.
const budgetShares = 8

// budget bounds what is held, in bytes: together, and of one provider. Sockets that
// are nobody's yet count as one. It is safe for concurrent use.
type budget struct {
	mu   sync.Mutex
	left int64
	each int64
	held map[ids.ProviderID]int64 // without zeros
}

func newBudget(most int64) *budget {
	return &budget{left: most, each: most / budgetShares, held: map[ids.ProviderID]int64{}}
}

// take takes n bytes out of the budget for a provider if they are there.
func (b *budget) take(of ids.ProviderID, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left || b.held[of]+n > b.each {
		return false
	}
	b.left -= n
	b.held[of] += n
	return true
}

// give gives back what was taken for a provider.
func (b *budget) give(of ids.ProviderID, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.held[of] -= n; b.held[of] <= 0 {
		delete(b.held, of)
	}
}

// intake reads the messages of a socket. An idle one holds no buffer.
type intake struct {
	conn    net.Conn
	br      *bufio.Reader
	session *Session
	buffers *sync.Pool // of *[]byte, each of bufferBytes
	budget  *budget
	// answer echoes a close frame.
	answer func(status uint16)
}

// message is one that is being read.
type message struct {
	buf     []byte
	size    int64 // of what arrived, kept or not
	own     int64 // bytes of buf that are out of the budget
	of      ids.ProviderID
	dropped bool // there was no room; buf is what came before
	timed   bool // it must arrive in time
	head    []byte
}

// next reads a message. Control frames before and within it are answered.
func (in *intake) next() error {
	h, err := in.frame()
	switch {
	case err != nil:
		return err
	case h.opcode == opContinuation:
		return breach("a continuation of nothing")
	}
	opcode := h.opcode
	shared := in.buffers.Get().(*[]byte)
	defer in.buffers.Put(shared)
	m := &message{buf: (*shared)[:0], head: *shared, dropped: in.session.deaf.Load()}
	defer in.free(m)
	for n := 1; ; n++ {
		if err := in.hurry(m, h); err != nil {
			return err
		}
		if err := in.gather(m, h); err != nil {
			return err
		}
		if h.final {
			return in.hand(m, opcode)
		}
		if n == maxFragments {
			return &violation{statusPolicy, "a message has too many fragments"}
		}
		if h, err = in.frame(); err != nil {
			return err
		}
		if h.opcode != opContinuation {
			return breach("a message begins within another")
		}
	}
}

// hand gives a message to the session.
func (in *intake) hand(m *message, opcode byte) error {
	s := in.session
	if opcode != s.terms.opcode {
		return &violation{statusUnsupported, "messages of this kind are not taken"}
	}
	s.house.counts.FramesIn.Add(1)
	if s.deaf.Load() {
		return nil
	}
	if m.dropped {
		s.house.counts.Discarded.Add(1)
		if why := s.wire.discarded(m.buf, m.size); why != nil {
			s.Shut(why)
		}
		return nil
	}
	if opcode == opText && !utf8.Valid(m.buf) {
		return &violation{statusInvalidPayload, "a text message is not UTF-8"}
	}
	if why := s.wire.receive(m.buf); why != nil {
		s.Shut(why)
	}
	return nil
}

// frame reads up to the next data frame.
func (in *intake) frame() (frameHead, error) {
	for {
		h, err := readHead(in.br)
		if err != nil || h.opcode < opClose {
			return h, err
		}
		if err := in.control(h); err != nil {
			return h, err
		}
	}
}

// control takes a control frame.
func (in *intake) control(h frameHead) error {
	payload, err := in.br.Peek(int(h.length)) // the buffer of the HTTP server is far larger
	if err != nil {
		return err
	}
	unmask(h.mask, 0, payload)
	_, _ = in.br.Discard(len(payload))
	var why *Closing
	switch h.opcode {
	case opPing:
		why = in.session.onPing(payload)
	case opPong:
		why = in.session.onPong()
	default:
		status, err := closeStatus(payload)
		if err != nil {
			return err
		}
		in.answer(status)
		return errPeerClosed
	}
	if why != nil {
		in.session.Shut(why)
	}
	return nil
}

// gather reads the payload of a data frame.
func (in *intake) gather(m *message, h frameHead) error {
	if h.length > in.session.most.Load()-m.size { // a sum could overflow
		return in.tooLarge(m.size, h.length)
	}
	m.size += h.length
	for offset := 0; int64(offset) < h.length; {
		rest := int(h.length) - offset
		if !m.dropped && len(m.buf) == cap(m.buf) {
			in.grow(m, rest, h.final)
		}
		if m.dropped {
			_, err := in.br.Discard(rest)
			return err
		}
		part := m.buf[len(m.buf):min(cap(m.buf), len(m.buf)+rest)]
		n, err := io.ReadFull(in.br, part)
		if err != nil {
			return err
		}
		unmask(h.mask, offset, part)
		m.buf = m.buf[:len(m.buf)+n]
		offset += n
	}
	return nil
}

// tooLarge is a breach. An agent whose registration it may be would dial again at
// once and send the same: it is refused as any other.
func (in *intake) tooLarge(before, length int64) error {
	s := in.session
	if length <= s.terms.news-before && !s.wasLive() {
		why := s.refused(CodeProtocolError, fmt.Sprintf("a registration may have at most %d bytes", s.terms.anonymous))
		why.status = statusTooBig
		s.Shut(why)
	}
	return &violation{statusTooBig, "a message is too large"}
}

// grow makes room for at least a part of what is still to come, or drops the
// message. Of a frame that is not the last rest says little: libraries cut
// messages into pieces of a few KiB, and room for one piece at a time would have
// all that is there copied for each.
func (in *intake) grow(m *message, rest int, last bool) {
	s := in.session
	// A length that is only announced takes nothing from others: there is room
	// for as much as has arrived.
	more := max(len(m.buf), bufferBytes)
	if last {
		more = min(more, rest)
	}
	size := min(int64(len(m.buf)+more), s.most.Load())
	if m.own == 0 {
		m.of = s.Identity().ProviderID
	}
	if s.deaf.Load() || size > s.terms.news && s.Streams() == 0 || !in.budget.take(m.of, size-m.own) {
		m.dropped, m.buf = true, m.head[:min(len(m.head), len(m.buf))]
		in.budget.give(m.of, m.own)
		m.own = 0
		return
	}
	m.own = size
	m.buf = append(make([]byte, 0, size), m.buf...)
}

// hurry sets the time for a message that is not all here, as it holds a buffer.
func (in *intake) hurry(m *message, h frameHead) error {
	if m.timed || h.final && h.length <= int64(in.br.Buffered()) {
		return nil
	}
	m.timed = true
	return in.conn.SetReadDeadline(time.Now().Add(in.session.cfg.LargeTimeout))
}

// free gives back what a message took.
func (in *intake) free(m *message) {
	if m.own > 0 {
		in.budget.give(m.of, m.own)
	}
	if m.timed {
		_ = in.conn.SetReadDeadline(time.Time{}) // a socket that cannot is closed anyway
	}
}

// read hands every message to the session until the socket fails or is closed.
// What it returns is not nil.
func (in *intake) read() error {
	for {
		if err := in.next(); err != nil {
			return err
		}
	}
}

// discard reads on behind a breach until either side closes, so that the peer
// can read why.
func (in *intake) discard() {
	_, _ = io.Copy(io.Discard, in.br)
}

// violationIn finds the breach in an error.
func violationIn(err error) (*violation, bool) {
	var v *violation
	ok := errors.As(err, &v)
	return v, ok
}
