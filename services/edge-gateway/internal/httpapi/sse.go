package httpapi

import (
	"bytes"
	"net/http"
	"time"

	"svc.internal/pkg/openai"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// The end of a stream of completions, and the comment that keeps one alive.
const (
	doneEvent      = "data: [DONE]\n\n"
	keepAliveEvent = ": keep-alive\n\n"
)

// maxKeptEvents bounds the buffer that is kept between flushes, in bytes.
const maxKeptEvents = 128 << 10

// sseSink streams an answer as server-sent events.
type sseSink struct {
	*exchange
	out  pacedWriter
	buf  []byte // what was gathered
	done bool   // the stream ends with [DONE]
}

// newSSESink streams the answer of an exchange; that to completions ends with [DONE].
func (h *Handler) newSSESink(x *exchange, kind rewrite.Kind) *sseSink {
	return &sseSink{
		exchange: x, out: newPacedWriter(x, x.control, h.cfg.AnswerTimeout),
		done: kind == rewrite.Chat || kind == rewrite.Completion,
	}
}

// Commit begins the stream with the headers of who serves.
func (s *sseSink) Commit(by inference.Served) {
	if !s.Begun() {
		setServed(s.Header(), by)
		setAttempts(s.Header(), by.Attempts)
		setLatency(s.Header(), by.FirstContent)
	}
	s.begin()
}

// begin sends the headers of the stream with the next flush.
func (s *sseSink) begin() {
	if !s.Begun() {
		beginStream(s)
	}
}

// beginStream sends the headers of a stream with the next flush.
func beginStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// Event gathers one event.
func (s *sseSink) Event(e rewrite.Event) { s.buf = appendEvent(s.buf, e) }

// appendEvent frames an event. JSON may have line ends between its tokens only. A space there means the same
// and keeps the event on one line.
func appendEvent(buf []byte, e rewrite.Event) []byte {
	if rewrite.IsEventName(e.Name) {
		buf = append(buf, "event: "...)
		buf = append(append(buf, e.Name...), '\n')
	}
	buf = append(buf, "data: "...)
	start := len(buf)
	buf = append(buf, e.JSON...)
	if line := buf[start:]; bytes.ContainsAny(line, "\r\n") {
		for i, b := range line {
			if b == '\r' || b == '\n' {
				line[i] = ' '
			}
		}
	}
	return append(buf, "\n\n"...)
}

// Flush sends the gathered events.
func (s *sseSink) Flush() error {
	err := s.out.flush(s.buf)
	s.buf = emptied(s.buf)
	return err
}

// emptied returns a buffer without its content, or none if it is too large to be kept.
func emptied(buf []byte) []byte {
	if cap(buf) > maxKeptEvents {
		return nil
	}
	return buf[:0]
}

// KeepAlive writes a comment and the gathered events.
func (s *sseSink) KeepAlive(interval time.Duration, paid bool) (left time.Duration, err error) {
	if quiet := time.Since(s.out.wrote); quiet < interval {
		return interval - quiet, nil
	}
	if len(s.buf) > 0 && !paid {
		return 0, nil
	}
	s.begin()
	s.buf = append(s.buf, keepAliveEvent...)
	return 0, s.Flush()
}

// Advance moves the answer on to the request's next model.
func (s *sseSink) Advance(id string, to *catalog.Model) {
	s.exchange.Advance(id, to)
	s.out.advance()
}

// Whole ends the stream.
func (s *sseSink) Whole(inference.Whole) error {
	if s.done {
		s.buf = append(s.buf, doneEvent...)
	}
	defer s.out.extend()
	if len(s.buf) == 0 {
		return nil
	}
	return s.Flush()
}

// Fail ends a stream that has begun with an error event, which may not arrive.
func (s *sseSink) Fail(f inference.Failure) {
	defer s.out.extend()
	a := apierror.Of(f.Err)
	if !s.Begun() {
		setFailed(s.Header(), f)
		return
	}
	if f.Unpaid {
		s.buf = s.buf[:0]
	}
	if a.Status == apierror.StatusClientClosed || s.out.failed {
		return
	}
	s.buf = openai.AppendErrorEvent(s.buf, a.Error, f.RequestID)
	_ = s.Flush() // the request has failed already, and is reported as that
}
