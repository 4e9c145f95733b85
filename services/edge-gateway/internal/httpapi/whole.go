package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// wholeSink gives an answer at once, when it has been served.
type wholeSink struct {
	*exchange
	out pacedWriter
}

// Commit notes who serves.
func (s *wholeSink) Commit(by inference.Served) {
	setServed(s.Header(), by)
	setAttempts(s.Header(), by.Attempts)
}

// Event is never called, because the answer is no stream.
func (*wholeSink) Event(rewrite.Event) {}

// Flush has nothing to send.
func (*wholeSink) Flush() error { return nil }

// KeepAlive has nothing to show before the answer.
func (*wholeSink) KeepAlive(time.Duration, bool) (time.Duration, error) { return 0, nil }

// Advance moves the answer on to the request's next model.
func (s *wholeSink) Advance(id string, to *catalog.Model) {
	s.exchange.Advance(id, to)
	s.out.advance()
}

// Whole writes the answer.
func (s *wholeSink) Whole(w inference.Whole) error {
	defer s.out.extend()
	setBilled(s.Header(), w)
	return s.out.answer(http.StatusOK, w.ContentType, w.Body)
}

// answer writes a whole answer and flushes it at once, because the hub's stream ends and the request is reported
// only afterwards. An error of the flush changes nothing: the answer is billed, even if the client has left.
func (p *pacedWriter) answer(status int, contentType string, body []byte) error {
	h := p.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	p.w.WriteHeader(status)
	if err := p.write(body); err != nil {
		return err
	}
	_ = p.control.Flush()
	return nil
}

// Fail leaves the answer to the caller of Run, unless the answer was begun.
func (s *wholeSink) Fail(f inference.Failure) {
	defer s.out.extend()
	if !s.Begun() {
		setFailed(s.Header(), f)
	}
}
