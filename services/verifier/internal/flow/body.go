package flow

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
	"svc.internal/services/verifier/internal/judge"
)

// maxChunks bounds the chunks of an answer. More are joined in pairs.
const maxChunks = 8_192

// errEncoding is the error for an encoding that was not asked for.
var errEncoding = errors.New("the answer has an encoding that was not asked for")

// plain decompresses a body of an encoding. The reader is not bounded; capture is.
func plain(body io.Reader, encoding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip":
		return gzip.NewReader(body)
	case "deflate":
		return zlib.NewReader(bufio.NewReader(body))
	default:
		return nil, errEncoding
	}
}

// capture takes an answer as it comes: its bytes, their times, and whether it is whole.
type capture struct {
	began  time.Time
	now    func() time.Time
	limit  int
	hangUp int

	raw    []byte
	chunks []judge.Chunk
	// events is the reader of a stream; nil for a whole answer.
	events *openai.SSEReader
	seen   int // events with data
	ended  bool
	// finished reports a finish_reason, and code that of an error within the stream.
	finished bool
	code     string
	// large reports that the answer is too large.
	large bool
	// over reports that the answer is too large, malformed, or was left.
	over, left bool
}

func newCapture(began time.Time, now func() time.Time, limit int, streamed bool, hangUp int) *capture {
	c := &capture{began: began, now: now, limit: limit}
	if streamed {
		c.events, c.hangUp = &openai.SSEReader{MaxEvent: limit}, hangUp
	}
	return c
}

// read takes a body to its end, to a bound, or to where the plan leaves it. Only an error
// of the body is one.
func (c *capture) read(body io.Reader) error {
	piece := make([]byte, 32<<10)
	for {
		n, err := body.Read(piece)
		if n > 0 && !c.take(piece[:n], c.now().Sub(c.began)) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			c.end()
			return nil
		}
		if err != nil {
			c.over = true
			return fmt.Errorf("read an answer: %w", err)
		}
	}
}

// take adds a piece that arrived so long after the request. It reports whether more is
// wanted.
func (c *capture) take(piece []byte, after time.Duration) bool {
	if room := c.limit - len(c.raw); len(piece) > room {
		piece, c.over, c.large = piece[:room], true, true
	}
	c.raw = append(c.raw, piece...)
	c.chunks = addChunk(c.chunks, after.Microseconds(), len(piece))
	if c.events != nil {
		c.scan(piece)
	}
	if c.left {
		c.raw = c.raw[:lastEvent(c.raw)]
	}
	return !c.over && !c.left
}

// lastEvent is where the last whole event of a stream ends. A part of an event says
// nothing.
func lastEvent(raw []byte) int {
	end := 0
	for _, blank := range []string{"\n\n", "\r\n\r\n"} {
		if at := bytes.LastIndex(raw, []byte(blank)); at >= 0 {
			end = max(end, at+len(blank))
		}
	}
	return end
}

// addChunk adds a chunk. Times never run back.
func addChunk(chunks []judge.Chunk, at int64, n int) []judge.Chunk {
	if n == 0 {
		return chunks
	}
	at = max(at, 0)
	if len(chunks) > 0 {
		at = max(at, chunks[len(chunks)-1].AtMicros)
	}
	if len(chunks) == maxChunks {
		for i := range maxChunks / 2 {
			a, b := chunks[2*i], chunks[2*i+1]
			chunks[i] = judge.Chunk{AtMicros: b.AtMicros, Bytes: a.Bytes + b.Bytes}
		}
		chunks = chunks[:maxChunks/2]
	}
	return append(chunks, judge.Chunk{AtMicros: at, Bytes: n})
}

// scan reads the events of a piece.
func (c *capture) scan(piece []byte) {
	c.events.Feed(piece)
	for !c.left && !c.over {
		event, ok := c.events.Next()
		if !ok {
			break
		}
		c.event(event)
	}
	c.over = c.over || c.events.Err() != nil
}

func (c *capture) event(e openai.Event) {
	if e.Done {
		c.ended = true
		return
	}
	chunk, err := openai.ScanChunk(e.Data)
	switch {
	case err != nil:
		c.over = true
	case chunk.Error.Found():
		c.code, c.over = cmp.Or(openai.ParseError(e.Data).Code, "unknown"), true
	default:
		c.finished = c.finished || chunk.FinishCount > 0
		c.seen++
		c.left = c.hangUp > 0 && c.seen >= c.hangUp
	}
}

// end takes note of the body's end.
func (c *capture) end() {
	if c.events == nil {
		c.ended, c.finished = json.Valid(c.raw), true
		return
	}
	if event, ok := c.events.End(); ok {
		c.event(event)
	}
}

// whole reports whether the answer ended as its protocol demands.
func (c *capture) whole() bool { return c.ended && c.finished && !c.over && !c.left }

// cut says why the answer was left before its end, if it was. err is the body's error.
func (c *capture) cut(err error) judge.Cut {
	switch {
	case c.large:
		return judge.Large
	case errors.Is(err, context.DeadlineExceeded):
		return judge.Slow
	default:
		return ""
	}
}

// failed reports whether an error within the stream is the provider's.
func (c *capture) failed() bool { return providerFailed(c.code) }

// providerFailed reports whether a code of the public table says that the provider failed.
func providerFailed(code string) bool {
	switch code {
	case "requested_provider_failed", "upstream_error", string(fault.DeadlineExceeded):
		return true
	}
	return false
}

// framed returns a v1 agent's stream, which is JSON objects one behind the other, as the
// events of a stream. ok reports whether it is.
func framed(raw []byte, limit int) (events []byte, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		var chunk json.RawMessage
		if err := d.Decode(&chunk); errors.Is(err, io.EOF) {
			return openai.AppendDone(events), true
		} else if err != nil || len(events)+len(chunk) > limit-64 {
			return events, false
		}
		var line bytes.Buffer
		if json.Compact(&line, chunk) != nil {
			return events, false
		}
		events = openai.AppendEvent(events, line.Bytes())
	}
}
