package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/idempotency"
)

// replayedHeader marks an answer that was given before.
const replayedHeader = "Idempotency-Replayed"

// idempotent lets an endpoint whose bodies are JSON serve a request that is sent
// again with the same Idempotency-Key once. A request without one is served as
// ever; one with a key is never run without the claim.
//
// The body is read before the claim is made, since it is part of what the key
// stands for, and read again by the endpoint, which then frees it.
func idempotent(serve func(*Handler, *exchange) error) func(*Handler, *exchange) error {
	return func(h *Handler, x *exchange) error {
		if !idempotency.Given(x.request.Header) {
			return serve(h, x)
		}
		who, _, err := h.enter(x, h.cfg.MaxBody, checkForm)
		if err != nil {
			return err
		}
		token, err := idempotency.ParseToken(x.request.Header)
		if err != nil {
			return overrules(x, err, h.cfg.MaxBody)
		}
		body := h.buffers.get()
		again := &repeated{free: func() { h.buffers.put(body) }}
		defer again.release()
		if err := readBody(x, body, h.cfg.MaxBody); err != nil {
			return err
		}
		again.Reset(body.Bytes())
		ask := idempotency.Ask{Token: token, Holds: int64(body.Cap())}
		return h.once(x, who, ask, body.Bytes(), func(claimed *http.Request) error {
			claimed.Body, claimed.ContentLength = again, int64(body.Len())
			x.request = claimed
			return serve(h, x)
		})
	}
}

// once runs serve if nobody else has or had the claim, and otherwise says what
// became of it. The ask has the token and what the body holds.
func (h *Handler) once(x *exchange, who *auth.Principal, ask idempotency.Ask, body []byte, serve func(*http.Request) error) error {
	ctx := x.request.Context()
	apiKey, err := auth.Credential(x.request.Header)
	if err != nil {
		return err
	}
	ask.KeyID, ask.APIKey, ask.RequestID, ask.ReceivedAt = who.KeyID, apiKey, x.id, x.started
	ask.Content = idempotency.Content(x.route.pattern, x.request.Header.Get("Content-Type"), body)
	claim, kept, err := h.Idempotency.Take(ctx, ask)
	switch {
	case err != nil:
		return err
	case kept != nil:
		return h.replay(x, kept)
	}
	held, release := claim.Hold(ctx)
	defer release()
	x.claim = claim
	heard := &tape{ResponseWriter: x.answer.ResponseWriter}
	x.answer.ResponseWriter = heard
	err = serve(x.request.WithContext(held))
	x.answer.ResponseWriter = heard.ResponseWriter
	h.sendOff(x, err)
	release()
	h.finish(ctx, x, claim, heard)
	return err
}

// sendOff lets the client have its answer, an error too, before the claim is
// ended: that may take long, and whoever asks again meanwhile waits.
func (h *Handler) sendOff(x *exchange, err error) {
	if err != nil {
		h.tell(x, err)
	}
	if x.begun() && x.answer.status != apierror.StatusClientClosed {
		_ = x.control.Flush() // a client that left is nobody's fault
	}
}

// finish ends the claim by what became of the request.
func (h *Handler) finish(ctx context.Context, x *exchange, claim *idempotency.KeyClaim, heard *tape) {
	answer := heard.answer()
	switch r := x.result; {
	case r.Committed == 0 && r.Usage == nil, r.Lapsed:
		claim.Finish(ctx, idempotency.Forgotten, nil)
	case r.Usage != nil && answer != nil:
		claim.Finish(ctx, idempotency.Kept, answer)
	default:
		claim.Finish(ctx, idempotency.NotKept, nil)
	}
}

// replay gives the answer that was given before, as a part of the request that
// was answered then.
func (h *Handler) replay(x *exchange, kept *idempotency.Answer) error {
	header := x.header()
	for name := range header {
		if strings.HasPrefix(name, ownPrefix) {
			header.Del(name)
		}
	}
	for name, values := range kept.Header {
		header[name] = values
	}
	header.Set(replayedHeader, "true")
	header.Set("Content-Length", strconv.Itoa(len(kept.Body)))
	x.facts = append(x.facts, slog.String("replays", kept.RequestID))
	h.setWriteDeadline(x)
	x.answer.WriteHeader(kept.Status)
	_, _ = x.answer.Write(kept.Body) // a client that left is nobody's fault
	return nil
}

// ownPrefix begins the names of the service's own headers.
const ownPrefix = "X-Svc-"

// said reports whether a header belongs to the answer, and is said again with it.
// What speaks of the connection or of the moment (rates, keep-alive) does not.
func said(name string) bool {
	switch name {
	case "Content-Type", "X-Request-Id", "Deprecation", "Sunset":
		return true
	}
	return strings.HasPrefix(name, ownPrefix)
}

// tape keeps a whole answer on its way to the client, up to what can be kept. Of
// a stream it keeps nothing.
//
// An answer that is paid for is kept although its client left while it was
// written: the error of the write is told with the answer's last byte.
type tape struct {
	http.ResponseWriter
	status   int
	stream   bool
	over     bool
	declared string // Content-Length
	body     []byte
	failed   error // of the first write that failed
}

// WriteHeader notes the status.
func (t *tape) WriteHeader(status int) {
	t.begin(status)
	t.ResponseWriter.WriteHeader(status)
}

func (t *tape) begin(status int) {
	if t.status != 0 {
		return
	}
	t.status = status
	kind, _, err := mime.ParseMediaType(t.Header().Get("Content-Type"))
	t.stream = err != nil || kind == "text/event-stream"
	t.declared = t.Header().Get("Content-Length")
	if size, err := strconv.Atoi(t.declared); err != nil || size > idempotency.MaxAnswer {
		t.over = true
	}
}

// Write notes what is sent, whether or not it arrives.
func (t *tape) Write(p []byte) (int, error) {
	t.begin(http.StatusOK)
	switch {
	case t.stream || t.over:
	case len(t.body)+len(p) > idempotency.MaxAnswer:
		t.over, t.body = true, nil
	default:
		t.body = append(t.body, p...)
	}
	n := len(p)
	if t.failed == nil {
		n, t.failed = t.ResponseWriter.Write(p)
	}
	if t.failed != nil && !t.stream && !t.over && !t.whole() {
		return len(p), nil
	}
	return n, t.failed
}

// whole reports whether all that was declared has been noted.
func (t *tape) whole() bool { return t.declared == strconv.Itoa(len(t.body)) }

// Unwrap lets http.ResponseController find the connection.
func (t *tape) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// answer is what was said, nil when that is not a whole answer, or too large.
func (t *tape) answer() *idempotency.Answer {
	if t.status != http.StatusOK || t.stream || t.over || !t.whole() {
		return nil
	}
	header := http.Header{}
	for name, values := range t.Header() {
		if said(name) {
			header[name] = values
		}
	}
	return &idempotency.Answer{Status: t.status, Header: header, Body: t.body}
}

// repeated is a body that was read before. Whoever reads it to its end frees it.
type repeated struct {
	bytes.Reader
	free func()
}

// Read reads a part of the body.
func (r *repeated) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		r.release()
	}
	return n, err
}

// Close leaves the freeing to whoever keeps the body.
func (r *repeated) Close() error { return nil }

func (r *repeated) release() {
	if r.free != nil {
		r.Reset(nil)
		r.free()
		r.free = nil
	}
}
