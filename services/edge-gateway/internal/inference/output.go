package inference

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"svc.internal/pkg/openai"

	"svc.internal/services/edge-gateway/internal/rewrite"
)

// output writes to one client, each write under its own deadline.
type output struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	buf     []byte
	begun   bool
	part    *Part // of an answer to several prompts; nil for a whole answer of its own
	failed  bool  // a write has failed: the client is gone or too slow
	relayed int64 // bytes of answers taken for the client
	flushed int64 // of them by the last flush

	wrote    time.Time // when something was written last
	deadline time.Time // of the connection, as set last
}

func newOutput(w http.ResponseWriter, timeout time.Duration) *output {
	return &output{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (o *output) header() http.Header {
	if o.part != nil {
		return o.part.head
	}
	return o.w.Header()
}

// begin sends the headers of a stream with the next flush.
func (o *output) begin() {
	if o.begun {
		return
	}
	o.begun = true
	if o.part != nil {
		o.part.begin()
		return
	}
	beginStream(o.w)
}

// beginStream sends the headers of a stream with the next flush.
func beginStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// gathered is how many bytes wait for the next flush.
func (o *output) gathered() int { return len(o.buf) }

// add gathers the events that a form has appended.
func (o *output) add(events []rewrite.Event) {
	for _, e := range events {
		o.event(e)
	}
}

// event gathers one event. Its JSON may hold line ends between its tokens only; a
// space there means the same and keeps the event on one line.
func (o *output) event(e rewrite.Event) {
	o.relayed += int64(len(e.JSON))
	if rewrite.IsEventName(e.Name) {
		o.buf = append(o.buf, "event: "...)
		o.buf = append(append(o.buf, e.Name...), '\n')
	}
	o.buf = append(o.buf, "data: "...)
	start := len(o.buf)
	o.buf = append(o.buf, e.JSON...)
	if line := o.buf[start:]; bytes.ContainsAny(line, "\r\n") {
		for i, b := range line {
			if b == '\r' || b == '\n' {
				line[i] = ' '
			}
		}
	}
	o.buf = append(o.buf, "\n\n"...)
}

// drop forgets what was gathered.
func (o *output) drop() { o.buf, o.relayed = o.buf[:0], o.flushed }

func (o *output) doneEvent() {
	if o.part == nil {
		o.buf = append(o.buf, "data: [DONE]\n\n"...)
	}
}

// errorEvent ends a stream with an error; whether it arrives is not known. The
// error of one of several prompts is told when the others have ended.
func (o *output) errorEvent(e openai.Error, requestID string) {
	if o.part == nil {
		o.buf = openai.AppendErrorEvent(o.buf, e, requestID)
	}
	if !o.failed {
		_ = o.flush() // the call has failed already, and is reported as that
	}
}

// keepAlive writes a comment, and with it what waits for more to come. That must
// be paid for; when it is not sure to be, nothing is written.
func (o *output) keepAlive(sure bool) error {
	if len(o.buf) > 0 && !sure {
		return nil
	}
	o.begin()
	o.buf = append(o.buf, ": keep-alive\n\n"...)
	return o.flush()
}

// flush writes what was gathered and sends it off.
func (o *output) flush() error {
	if o.part != nil {
		o.part.merge.mu.Lock()
		defer o.part.merge.mu.Unlock()
	}
	err := o.write(o.buf)
	if err == nil {
		err = o.control.Flush()
	}
	if cap(o.buf) > 2*flushBytes {
		o.buf = nil
	}
	o.buf, o.flushed = o.buf[:0], o.relayed
	o.failed = o.failed || err != nil
	return err
}

// write writes in slices, each of which has its own time.
func (o *output) write(p []byte) error {
	for {
		n := min(len(p), writeSlice)
		o.extend()
		if _, err := o.w.Write(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}

// deadlineSlack is how much shorter than it may be a write's time can be.
const deadlineSlack = time.Second

// extend gives the next write its time. Of many writes in a row only some set a
// deadline, for that costs as much as the rest of a small event.
func (o *output) extend() {
	o.wrote = time.Now()
	due := o.wrote.Add(o.timeout)
	if due.Sub(o.deadline) < min(deadlineSlack, o.timeout/8) {
		return
	}
	o.deadline = due
	// A connection that knows no deadlines (a test's recorder) has none.
	_ = o.control.SetWriteDeadline(due)
}

// whole answers with a body that is not streamed.
func (o *output) whole(contentType string, body []byte) error {
	o.begun = true
	o.relayed += int64(len(body))
	if o.part != nil {
		return nil // the merge has it
	}
	return o.answer(http.StatusOK, contentType, body)
}

// answer writes a whole answer.
func (o *output) answer(status int, contentType string, body []byte) error {
	h := o.header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	o.w.WriteHeader(status)
	err := o.write(body)
	o.failed = o.failed || err != nil
	return err
}

// done gives what is still to be written one more term.
func (o *output) done() { o.extend() }
