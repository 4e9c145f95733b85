package httpapi

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/openai"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// requestIDs names the requests of all prompts, in their order.
const requestIDs = "X-Svc-Request-Ids"

// mergedSink answers a request with several prompts. Every event of a stream goes to the client as it comes,
// and each whole answer waits for the others.
type mergedSink struct {
	*exchange
	ids    []string // of the prompts' requests
	stream bool
	out    pacedWriter

	mu    sync.Mutex // guards the exchange's writer while parts are streamed
	parts []partSink
}

// partSink takes the answer to one of several prompts.
type partSink struct {
	of    *mergedSink
	head  http.Header // of the part
	begun bool
	out   pacedWriter
	buf   []byte // what was gathered
}

// newMergedSink is the client of a request with these prompts.
func (h *Handler) newMergedSink(x *exchange, req *inference.Request) *mergedSink {
	out := newPacedWriter(x, x.control, h.cfg.AnswerTimeout)
	s := &mergedSink{
		exchange: x, stream: req.Answer.Stream, out: out, ids: []string{req.ID},
		parts: make([]partSink, 1+len(req.More)),
	}
	for _, p := range req.More {
		s.ids = append(s.ids, p.ID)
	}
	for i := range s.parts {
		s.parts[i] = partSink{of: s, head: http.Header{}, out: out}
	}
	return s
}

// Part takes the answer to the i-th prompt. It is called when the prompts begin, also for prompts that are
// then refused, so the answer names the prompts' requests from here on.
func (s *mergedSink) Part(i int) inference.Sink {
	s.Header().Set(requestIDs, strings.Join(s.ids, ","))
	return &s.parts[i]
}

// Whole ends an answer whose prompts were all served.
func (s *mergedSink) Whole(w inference.Whole, usage *rewrite.Event) error {
	defer s.out.extend()
	if s.stream {
		var end []byte
		if usage != nil {
			end = appendEvent(end, *usage)
		}
		return s.out.flush(append(end, doneEvent...))
	}
	s.copyHead(0)
	setBilled(s.Header(), w)
	return s.out.answer(http.StatusOK, w.ContentType, w.Body)
}

// copyHead copies a part's headers about its provider into the answer.
func (s *mergedSink) copyHead(part int) { maps.Copy(s.Header(), s.parts[part].head) }

// FailPart ends a stream that has begun with an error event. Otherwise the answers that are billed stand
// beside the error.
func (s *mergedSink) FailPart(f inference.PartFailure) {
	defer s.out.extend()
	begun := s.Begun()
	if !begun {
		s.copyHead(f.Part)
	}
	switch {
	case f.Answer.Status == apierror.StatusClientClosed:
	case begun:
		_ = s.out.flush(openai.AppendErrorEvent(nil, f.Answer.Error, s.id)) // the request has failed already
	case len(f.Choices) > 0:
		body := openai.AppendError(nil, f.Answer.Error, s.id)
		body = append(body[:len(body)-1], `,"choices":[`...)
		body = append(append(body, f.Choices...), `],"usage":`+f.Usage+`}`...)
		f.Answer.SetHeaders(s.Header())
		setCost(s.Header(), f.Cost)
		_ = s.out.answer(f.Answer.Status, rewrite.TypeJSON, body) // a client that left is nobody's fault
	}
}

// Begun reports whether the part has been begun.
func (p *partSink) Begun() bool { return p.begun }

// Commit notes who serves the prompt. The part that commits first begins the stream.
func (p *partSink) Commit(by inference.Served) {
	if !p.begun {
		setServed(p.head, by)
		setAttempts(p.head, by.Attempts)
	}
	if p.of.stream {
		setLatency(p.head, by.FirstContent)
		p.begin()
	}
}

func (p *partSink) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if !p.of.Begun() {
		maps.Copy(p.of.Header(), p.head)
		beginStream(p.of)
	}
}

// Event gathers one event.
func (p *partSink) Event(e rewrite.Event) { p.buf = appendEvent(p.buf, e) }

// Flush sends the gathered events.
func (p *partSink) Flush() error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	err := p.out.flush(p.buf)
	p.buf = emptied(p.buf)
	return err
}

// KeepAlive writes a comment and the gathered events.
func (p *partSink) KeepAlive(interval time.Duration, paid bool) (left time.Duration, err error) {
	if quiet := time.Since(p.out.wrote); quiet < interval {
		return interval - quiet, nil
	}
	if len(p.buf) > 0 && !paid {
		return 0, nil
	}
	p.begin()
	p.buf = append(p.buf, keepAliveEvent...)
	return 0, p.Flush()
}

// Whole ends the part: its events, or its answer, which waits for the others.
func (p *partSink) Whole(w inference.Whole) error {
	if !p.of.stream {
		p.begun = true
		return nil
	}
	if len(p.buf) == 0 {
		return nil
	}
	return p.Flush()
}

// Fail ends the part. Its error is sent when the other parts have ended.
func (p *partSink) Fail(f inference.Failure) {
	if !p.begun {
		setFailed(p.head, f)
		return
	}
	if f.Unpaid {
		p.buf = p.buf[:0]
	}
	if len(p.buf) > 0 && !p.out.failed && apierror.Of(f.Err).Status != apierror.StatusClientClosed {
		_ = p.Flush() // the prompt has failed already, and is reported as that
	}
}
