package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/telemetry"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/relay"
)

// exchange is one request and its answer.
type exchange struct {
	id      string
	started time.Time
	request *http.Request
	answer  *recorder
	control *http.ResponseController
	route   route
	rest    string // the path's variable part, escaped
	pages   bool   // whether pages of other origins may call; see surface

	// Whose rate the answer tells of; see limits.go.
	who      *auth.Principal // nil without a good key
	asked    bool            // whether who has been found out
	category string          // of the model, once it is known
	rated    bool            // the rate is told, or is none

	told  error       // the error that was answered, if any
	facts []slog.Attr // what the log line says besides

	// Of a chat completion, as far as it came.
	model   string
	stream  bool
	choices []choice              // the models that may be tried next
	claim   *idempotency.KeyClaim // nil without an Idempotency-Key
	result  relay.Result
}

func (x *exchange) header() http.Header { return x.answer.Header() }

// begun reports whether headers have been sent.
func (x *exchange) begun() bool { return x.answer.status != 0 }

// authenticate tells whose key the request carries.
func (h *Handler) authenticate(x *exchange) (who *auth.Principal, err error) {
	who, err = h.Auth.Authenticate(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	x.who, x.asked = who, true
	return who, err
}

// authenticateAfresh is authenticate for what billing-ledger does not admit.
func (h *Handler) authenticateAfresh(x *exchange) (who *auth.Principal, err error) {
	who, err = h.Auth.AuthenticateAfresh(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	x.who, x.asked = who, true
	return who, err
}

// setWriteDeadline bounds the time in which the client must read an answer. A
// connection that knows no deadlines has none.
func (h *Handler) setWriteDeadline(x *exchange) {
	_ = x.control.SetWriteDeadline(time.Now().Add(h.cfg.AnswerTimeout))
}

// json answers 200 with a body that is JSON already.
func (h *Handler) json(x *exchange, body []byte) error {
	h.setWriteDeadline(x)
	header := x.header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.answer.WriteHeader(http.StatusOK)
	_, _ = x.answer.Write(body) // a client that left is nobody's fault
	return nil
}

// recorder remembers the status that was sent.
type recorder struct {
	http.ResponseWriter
	status int
	unread bool             // the request's body has not been read to its end
	before func(status int) // adds the headers that come last; nil for none
}

// begin notes the status. A connection with a body still to come is not used
// again, so that net/http does not wait for the body before it answers.
func (r *recorder) begin(status int) {
	if r.status != 0 {
		return
	}
	if r.before != nil {
		r.before(status)
	}
	r.status = status
	if r.unread {
		r.Header().Set("Connection", "close")
	}
}

// WriteHeader sends the status.
func (r *recorder) WriteHeader(status int) {
	r.begin(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (r *recorder) Write(p []byte) (int, error) {
	r.begin(http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// ServeHTTP answers one request of the public listener and writes its log line.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r, public) }

// lastOfConnection reports whether nothing behind a request may be read as another,
// because its framing is in doubt.
//
// A body in chunks is the last of its connection. net/http drops a Content-Length
// that stands beside the chunks, so it cannot be refused here; but whatever a
// front that goes by that length takes for the next request is not read. So is a
// request of HTTP/1.0: net/http drops its Transfer-Encoding and takes the chunks
// for the next request.
func lastOfConnection(r *http.Request) bool {
	return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, s surface) {
	if lastOfConnection(r) {
		w.Header().Set("Connection", "close")
	}
	x := &exchange{
		started: h.Clock.Now(), answer: &recorder{ResponseWriter: w}, control: http.NewResponseController(w), pages: s.pages,
	}
	var refused error
	if s.admit != nil {
		refused = s.admit(r)
	}
	if x.route = unknown; refused == nil {
		x.route, x.rest = s.find(r.URL.EscapedPath())
	}
	if h.Rates != nil && s.pages && tellsRate(r) {
		x.answer.before = func(status int) { h.tellRate(x, status) }
	}
	ctx, span := h.startSpan(r, x.route.pattern)
	defer span.End()
	id, err := ids.NewRequest(x.started, h.Random)
	if err == nil {
		x.id = id.String()
		ctx = telemetry.WithRequestID(ctx, x.id)
	}
	x.request = r.WithContext(ctx)
	if r.ContentLength != 0 {
		h.expectBody(x)
	}
	defer h.end(ctx, x)
	if err != nil {
		h.tell(x, err)
		return
	}
	x.nameRequest()
	x.header().Set("X-Content-Type-Options", "nosniff")
	if s.pages && crossOrigin(r.URL.Path) {
		allowOrigin(x)
	}
	if err := h.dispatch(x); err != nil {
		h.tell(x, err)
	}
}

// tell answers with an error, unless nobody is there to read it or an answer
// was begun.
func (h *Handler) tell(x *exchange, err error) {
	if f, ok := fault.As(err); ok && f.Kind == fault.Canceled && !clientLeft(x.request.Context()) {
		// It was a peer that went away or this server that stops, not the client.
		err = fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	x.told = err
	a := apierror.Of(err)
	if x.answer.status != 0 {
		return
	}
	if a.Status == apierror.StatusClientClosed {
		x.answer.status = a.Status
		return
	}
	h.setWriteDeadline(x)
	_ = formOf(x.request.URL.EscapedPath())(a, x.answer, x.id) // a client that left is nobody's fault
	x.leaveUnread()
}

// clientLeft tells a client that left, for which net/http has no cause, from a
// server that ends its requests.
func clientLeft(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled)
}

// end catches a panic, measures, and writes the log line.
func (h *Handler) end(ctx context.Context, x *exchange) {
	p := recover()
	if p != nil {
		begun := x.answer.status != 0
		h.tell(x, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		if begun {
			// What was written cannot be taken back; the client must see that
			// it is cut off.
			defer panic(http.ErrAbortHandler)
		}
	}
	// The next request on this connection begins without a deadline.
	defer func() { _ = x.control.SetWriteDeadline(time.Time{}) }()
	took := h.Clock.Now().Sub(x.started)
	status := x.answer.status
	if a := apierror.Of(x.told); x.told != nil && a.Status == apierror.StatusClientClosed {
		status = a.Status
	}
	h.Metrics.request(ctx, x.route.pattern, status, took)
	h.Metrics.model(ctx, x, took)
	describe(trace.SpanFromContext(ctx), x, status)
	h.log(ctx, x, status, took)
	if status == apierror.StatusClientClosed && p == nil {
		// net/http would end the answer properly, and a client that has only closed
		// its side for writing would read 200 and nothing, or half an answer.
		panic(http.ErrAbortHandler)
	}
}

func (h *Handler) log(ctx context.Context, x *exchange, status int, took time.Duration) {
	level := slog.LevelInfo
	attrs := append([]slog.Attr{
		slog.String("request_id", x.id),
		slog.String("method", method(x.request.Method)),
		slog.String("route", x.route.pattern),
		slog.Int("status", status),
		slog.Int64("duration_ms", took.Milliseconds()),
	}, x.facts...)
	if x.told != nil {
		a := apierror.Of(x.told)
		attrs = append(attrs, slog.String("code", a.KnownCode()))
		if a.Internal || status >= http.StatusInternalServerError {
			attrs = append(attrs, slog.Any("error", x.told))
		}
		if a.Internal {
			level = slog.LevelError
		}
	}
	h.Log.LogAttrs(ctx, level, "request", attrs...)
}

// operatorFacts are what the log line of an operator's call says besides.
func operatorFacts(name, path string) []slog.Attr {
	return []slog.Attr{slog.String("operator", name), slog.String("path", path[:min(len(path), maxLoggedPath)])}
}

// maxLoggedPath bounds the path of an operator's call in the log, in bytes.
const maxLoggedPath = 512

// method keeps what is logged within the methods that exist.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
