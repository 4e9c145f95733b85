package openai

import (
	"bytes"
	"errors"
	"io"
)

// DefaultMaxEvent bounds one server-sent event, in bytes as they arrive.
const DefaultMaxEvent = 1 << 20

// ErrEventTooLarge ends a feed whose event exceeds its bound.
var ErrEventTooLarge = errors.New("server-sent event too large")

// done is the payload that ends a stream.
var done = []byte("[DONE]")

// Event is one server-sent event that has data.
type Event struct {
	// Name is the value of the last "event:" line, at most its first 65 bytes;
	// empty if there was none.
	Name []byte
	// Data is the payload: the "data:" lines joined by LF.
	Data []byte
	// Done reports whether Data is [DONE].
	Done bool
}

// SSEReader splits a byte feed that comes in arbitrary pieces into events:
// lines end with CR, LF or CRLF; comments, "id:", "retry:" and unknown fields
// are ignored; an event without data is none. Where the feed is cut makes no
// difference to the events.
//
//	reader.Feed(frame)
//	for {
//		event, ok := reader.Next()
//		if !ok {
//			break
//		}
//		…
//	}
//	if err := reader.Err(); err != nil { … }
//
// An event's slices are valid until the next call of Next or Feed. The bytes fed
// must not change until Next has returned false. Then the unread bytes have been
// copied, and the caller may use the piece again. An event whose data is one line
// within one piece is a slice of that piece, without copy or allocation. An incomplete
// event is kept in a buffer of at most the bound plus one piece. The zero
// value is ready for use.
type SSEReader struct {
	// MaxEvent bounds one event in bytes, field names and comments within it
	// included; zero is DefaultMaxEvent.
	MaxEvent int

	buf   []byte // the unread bytes: the caller's piece, or own
	own   []byte
	owned bool // buf is own

	event int // where the event being read begins in buf
	line  int // where the line being read begins
	scan  int // up to where that line was searched for its end

	lineEnd         int    // where the line taken last ends in buf
	dataAt, dataEnd int    // the value of the first data line, in buf
	lines           int    // data lines of this event
	joined          []byte // the data when there are several lines
	name            []byte
	named           bool
	skipLF          bool // a CR ended the last line: an LF belongs to it
	begun           bool // the first line was seen, where a BOM may stand
	err             error
}

// Err returns why the feed cannot be read further.
func (r *SSEReader) Err() error { return r.err }

// Buffered returns the bytes that the reader holds: the beginning of an incomplete event,
// and the joined data of an event of several lines. Until Next has returned false, the
// events that it returned count too.
func (r *SSEReader) Buffered() int {
	if r.owned {
		return len(r.own) + len(r.joined)
	}
	return len(r.buf) - r.event + len(r.joined)
}

// Feed adds the next piece. Earlier events that were not taken with Next are kept.
func (r *SSEReader) Feed(piece []byte) {
	if r.err != nil || len(piece) == 0 {
		return
	}
	if r.event == len(r.buf) {
		r.buf, r.owned = piece, false
		r.rebase(r.event)
		return
	}
	r.keep()
	r.own = append(r.own, piece...)
	r.buf = r.own
}

// keepBuffer is the largest buffer that is used again for later events, in bytes, because
// one large event is no reason to hold its memory for as long as the feed lasts.
const keepBuffer = 256 << 10

// keepName is the stored length of an event's name, in bytes: one more than any name that
// is passed on, so that a longer name is not taken for its beginning.
const keepName = 65

// keep moves the unread bytes into the reader's own buffer.
func (r *SSEReader) keep() {
	if r.owned && r.event == 0 {
		return
	}
	rest := r.buf[r.event:]
	if cap(r.own) > keepBuffer && len(rest) <= keepBuffer {
		r.own = nil
	}
	if r.lines < 2 {
		r.joined = r.joined[:0]
		if cap(r.joined) > keepBuffer {
			r.joined = nil
		}
	}
	r.own = append(r.own[:0], rest...)
	r.rebase(r.event)
	r.buf, r.owned = r.own, true
}

// rebase moves all offsets when the first n bytes of buf are dropped.
func (r *SSEReader) rebase(n int) {
	r.event -= n
	r.line -= n
	r.scan -= n
	r.dataAt -= n
	r.dataEnd -= n
}

// Next returns the next complete event; false when more must be fed, or after an error.
func (r *SSEReader) Next() (Event, bool) {
	for r.err == nil {
		line, ok := r.nextLine()
		if !ok {
			r.keep()
			return Event{}, false
		}
		if len(line) > 0 {
			r.field(line)
			continue
		}
		if event, ok := r.dispatch(); ok {
			return event, true
		}
	}
	return Event{}, false
}

// End takes the end of the feed for the end of the event being read, as if a blank line
// followed, because some engines leave out the last one. It returns that event, if it has
// data.
func (r *SSEReader) End() (Event, bool) {
	if r.err != nil {
		return Event{}, false
	}
	if r.line < len(r.buf) {
		line := r.buf[r.line:]
		r.line, r.scan, r.lineEnd = len(r.buf), len(r.buf), len(r.buf)
		r.field(line)
	}
	return r.dispatch()
}

// nextLine returns the next complete line without its end.
func (r *SSEReader) nextLine() ([]byte, bool) {
	if r.skipLF && r.line < len(r.buf) {
		r.skipLF = false
		if r.buf[r.line] == '\n' {
			if r.event == r.line {
				r.event++
			}
			r.line++
			r.scan = r.line
		}
	}
	length := lineEnd(r.buf[r.scan:])
	if length < 0 {
		r.scan = len(r.buf)
		if r.scan-r.event > r.bound() {
			r.err = ErrEventTooLarge
		}
		return nil, false
	}
	end := r.scan + length
	if end-r.event > r.bound() {
		r.err = ErrEventTooLarge
		return nil, false
	}
	line := r.buf[r.line:end]
	r.lineEnd = end
	r.skipLF = r.buf[end] == '\r'
	r.line, r.scan = end+1, end+1
	return line, true
}

// lineWindow is how far lineEnd looks for one line end before it looks for the other. It
// keeps a feed of nothing but CRs from being searched to its end for an LF at every line.
const lineWindow = 1 << 10

// lineEnd returns the offset of the first CR or LF, or -1.
func lineEnd(b []byte) int {
	for at := 0; at < len(b); at += lineWindow {
		window := b[at:min(at+lineWindow, len(b))]
		end := bytes.IndexByte(window, '\n')
		if end >= 0 {
			window = window[:end]
		}
		if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
			end = cr
		}
		if end >= 0 {
			return at + end
		}
	}
	return -1
}

func (r *SSEReader) bound() int {
	if r.MaxEvent > 0 {
		return r.MaxEvent
	}
	return DefaultMaxEvent
}

// field takes one line that is not blank. Only the bytes from the first data line on must
// be kept: an event without data yet begins again after the line.
func (r *SSEReader) field(line []byte) {
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		r.data(value)
	case "event":
		r.name = append(r.name[:0], value[:min(len(value), keepName)]...)
		r.named = true
	}
	if r.lines == 0 {
		r.event = r.line
	}
}

// data takes the value of a data line, which reaches to the line's end.
func (r *SSEReader) data(value []byte) {
	if r.lines++; r.lines == 1 {
		r.dataAt, r.dataEnd = r.lineEnd-len(value), r.lineEnd
		return
	}
	if r.lines == 2 {
		r.joined = append(r.joined[:0], r.buf[r.dataAt:r.dataEnd]...)
	}
	r.joined = append(append(r.joined, '\n'), value...)
}

// dispatch ends the event being read and returns it if it has data.
func (r *SSEReader) dispatch() (Event, bool) {
	r.begun = true
	var e Event
	ok := r.lines > 0
	if ok {
		e.Data = r.joined
		if r.lines == 1 {
			e.Data = r.buf[r.dataAt:r.dataEnd]
		}
		if r.named {
			e.Name = r.name
		}
		e.Done = bytes.Equal(bytes.TrimSpace(e.Data), done)
	}
	r.lines, r.named = 0, false
	r.event = r.line
	return e, ok
}

// SSEStream reads events from an io.Reader.
type SSEStream struct {
	from   io.Reader
	reader SSEReader
	piece  []byte
	err    error
}

// streamPiece is how much SSEStream reads at a time.
const streamPiece = 16 << 10

// NewSSEStream returns a stream over from whose events are at most maxEvent
// bytes; zero is DefaultMaxEvent.
func NewSSEStream(from io.Reader, maxEvent int) *SSEStream {
	return &SSEStream{from: from, reader: SSEReader{MaxEvent: maxEvent}, piece: make([]byte, streamPiece)}
}

// Next returns the next event, whose slices are valid until the next call. At the end of
// the stream the error is io.EOF; an event that ended without a blank line is returned
// before it.
func (s *SSEStream) Next() (Event, error) {
	for {
		if event, ok := s.reader.Next(); ok {
			return event, nil
		}
		if err := s.reader.Err(); err != nil {
			return Event{}, err
		}
		if s.err != nil {
			if event, ok := s.reader.End(); ok && errors.Is(s.err, io.EOF) {
				return event, nil
			}
			return Event{}, s.err
		}
		var n int
		n, s.err = s.from.Read(s.piece)
		s.reader.Feed(s.piece[:n])
	}
}

// AppendEvent appends data as one event, "data: …" and a blank line, with LF
// line ends only. Data of several lines becomes several data lines.
func AppendEvent(dst, data []byte) []byte {
	for {
		dst = append(dst, "data: "...)
		end := lineEnd(data)
		if end < 0 {
			dst = append(dst, data...)
			return append(dst, "\n\n"...)
		}
		dst = append(append(dst, data[:end]...), '\n')
		if data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n' {
			end++
		}
		data = data[end+1:]
	}
}

// AppendDone appends the event that ends a stream.
func AppendDone(dst []byte) []byte { return append(dst, "data: [DONE]\n\n"...) }
