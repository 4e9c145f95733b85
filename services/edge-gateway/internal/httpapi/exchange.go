package httpapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/telemetry"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// route is one kind of request.
type route struct {
	// pattern names the route in logs and metrics.
	pattern string
	methods []string
	// serve answers, or returns the error to answer with.
	serve func(*Handler, *exchange) error
}

var (
	get  = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

// surface is the set of routes that one listener answers.
type surface struct {
	// find returns the route of an escaped path and the path's variable part, still
	// escaped.
	find func(path string) (route, string)
	// page is the route of the listener's pages.
	page route
	// foreign reports whether pages of other origins may call, and whether answers show
	// rates: on the public listener, and on no other.
	foreign bool
	// admit refuses a request before it has a route; nil refuses none.
	admit func(*http.Request) error
}

// usualFacts is how many facts most log lines have. A line with more costs an allocation.
const usualFacts = 8

// exchange is one request and its answer. It is the http.ResponseWriter of the answer and
// keeps the status that was sent.
type exchange struct {
	id      string
	started time.Time
	request *http.Request
	route   route
	rest    string // the path's variable part, escaped
	foreign bool   // whether pages of other origins may call; see surface

	w       http.ResponseWriter
	control *http.ResponseController
	status  int              // that was sent; 0 before
	unread  bool             // the request's body has not been read to its end
	cut     bool             // the answer broke off: its connection is cut, so that no client takes a part for the whole
	before  func(status int) // adds the headers that come last; nil for none
	tape    *tape            // keeps the answer; nil for none
	raw     *bytes.Buffer    // the body, until what is sent has been made of it

	// Whose rate the answer shows; see rate.go.
	who           *auth.Principal // nil without a good key
	authenticated bool            // whether who has been found out
	category      string          // of the model, once it is known
	rateKnown     bool            // the rate is told, or is none

	err   error       // the error that was answered, if any
	facts []slog.Attr // what the log line says besides
	room  [usualFacts]slog.Attr

	// Of a chat completion, as far as it came.
	model  string
	stream bool
	claim  *idempotency.KeyClaim // nil without an Idempotency-Key
	result inference.Result
}

// Header returns the headers of the answer.
func (x *exchange) Header() http.Header { return x.w.Header() }

// Begun reports whether headers have been sent.
func (x *exchange) Begun() bool { return x.status != 0 }

// begin notes the status. A connection whose body has not been read is not used again, so
// that net/http does not wait for the body before it answers.
func (x *exchange) begin(status int) {
	if x.status != 0 {
		return
	}
	if x.before != nil {
		x.before(status)
	}
	x.status = status
	if x.unread {
		x.Header().Set("Connection", "close")
	}
	if x.tape != nil {
		x.tape.begin(status, x.Header())
	}
}

// WriteHeader sends the status.
func (x *exchange) WriteHeader(status int) {
	x.begin(status)
	x.w.WriteHeader(status)
}

// Write sends a part of the body.
func (x *exchange) Write(p []byte) (int, error) {
	x.begin(http.StatusOK)
	if x.tape != nil {
		return x.tape.write(x.w, p)
	}
	return x.w.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// authenticate returns the owner of the key that the request carries.
func (h *Handler) authenticate(x *exchange) (who *auth.Principal, err error) {
	who, err = h.Auth.Authenticate(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	x.who, x.authenticated = who, true
	return who, err
}

// authenticateAfresh is authenticate for requests that billing-ledger does not admit.
func (h *Handler) authenticateAfresh(x *exchange) (who *auth.Principal, err error) {
	who, err = h.Auth.AuthenticateAfresh(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	x.who, x.authenticated = who, true
	return who, err
}

// setWriteDeadline bounds the time in which the client must read an answer. A connection
// without deadlines has no such bound.
func (h *Handler) setWriteDeadline(x *exchange) {
	_ = x.control.SetWriteDeadline(time.Now().Add(h.cfg.AnswerTimeout))
}

// json answers 200 with a body that is JSON already.
func (h *Handler) json(x *exchange, body []byte) error {
	x.Header().Set("Content-Type", rewrite.TypeJSON)
	h.answer(x, http.StatusOK, body)
	return nil
}

// answer answers with a body that is there.
func (h *Handler) answer(x *exchange, status int, body []byte) {
	h.setWriteDeadline(x)
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.Write(body) // a client that left is nobody's fault
}

// tell answers with an error, unless the client has left or an answer has begun.
func (h *Handler) tell(x *exchange, err error) {
	if f, ok := fault.As(err); ok && f.Kind == fault.Canceled && !clientLeft(x.request.Context()) {
		// A peer has closed its connection or this server stops; the client is still
		// there.
		err = fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	x.err = err
	a := apierror.Of(err)
	if x.status != 0 {
		return
	}
	if a.Status == apierror.StatusClientClosed {
		x.status = a.Status
		return
	}
	h.setWriteDeadline(x)
	_ = formOf(x.request.URL.EscapedPath())(a, x, x.id) // a client that left is nobody's fault
	x.leaveUnread()
}

// linger is how long the connection of a refused request without a good key stays open
// for the bytes that its client has sent already. A connection that is closed on unread
// bytes is reset, and the client might not read the answer.
const linger = 500 * time.Millisecond

// leaveUnread bounds the wait for a body that nobody will read. Otherwise net/http would
// wait for up to 256 KiB of it after the answer, for as long as a body may take.
func (x *exchange) leaveUnread() {
	if x.unread && x.who == nil && x.status >= http.StatusBadRequest {
		_ = x.control.SetReadDeadline(time.Now().Add(linger))
	}
}

// entered is the result of the first steps of a request that is paid for.
type entered struct {
	who   *auth.Principal
	pin   admission.Pin
	token idempotency.Token // empty without an Idempotency-Key
}

// enter does the first steps of every request that is paid for, before its body of at
// most limit bytes is read: it finds who asks, and which provider is wanted. The order of
// its steps is the public order of errors: 413, 401, 400. checkHead looks at the headers
// that describe the body.
func (h *Handler) enter(x *exchange, limit int64, checkHead func(http.Header) error) (in entered, err error) {
	header := x.request.Header
	if err := checkDeclared(x.request, limit); err != nil {
		return in, err
	}
	ask := h.authenticate
	if idempotency.Given(header) {
		ask = h.authenticateAfresh // a kept answer is given without admission
	}
	if in.who, err = ask(x); err != nil {
		return in, err
	}
	if in.pin, err = admission.ParsePin(header); err != nil {
		if len(header.Values(admission.ProviderHeader)) > 0 {
			x.Header().Set("X-Svc-Route-Mode", "explicit")
		}
		return in, overrules(x.request, err, limit)
	}
	setRoute(x.Header(), in.pin)
	if err := checkHead(header); err != nil {
		return in, overrules(x.request, err, limit)
	}
	if idempotency.Given(header) {
		if in.token, err = idempotency.ParseToken(header); err != nil {
			return in, overrules(x.request, err, limit)
		}
	}
	return in, nil
}

// readBody reads the whole body of at most limit bytes into x.raw.
func (h *Handler) readBody(x *exchange, limit int64) error {
	x.raw = h.buffers.get()
	return readBody(x.request, x.raw, limit)
}

// freeBody gives back the memory of the body, if that was read.
func (h *Handler) freeBody(x *exchange) {
	if x.raw != nil {
		h.buffers.put(x.raw)
		x.raw = nil
	}
}

// expectBody bounds the time in which the body must arrive, whether or not a handler
// reads it, because net/http itself reads what a handler left. A connection without
// deadlines has no such bound.
func (h *Handler) expectBody(x *exchange) {
	_ = x.control.SetReadDeadline(time.Now().Add(h.cfg.BodyTimeout))
	x.unread = true
	x.request.Body = &arrival{ReadCloser: x.request.Body, whole: func() {
		x.unread = false
		// The connection is still watched for a client that leaves, and a deadline must
		// not look like one.
		_ = x.control.SetReadDeadline(time.Time{})
	}}
}

// setRate writes how much of the key's rate is left, so that it is not read again.
func (x *exchange) setRate(requests *billingv1.RateLimit) {
	x.rateKnown = true
	setRate(x.Header(), requests)
}

// Admitted says on which terms the request was admitted.
func (x *exchange) Admitted(rate *billingv1.RateLimit, paid billingv1.BillingType) {
	x.setRate(rate)
	setBillingType(x.Header(), paid)
}

// Refused notes the rate that a refusal by admission has.
func (x *exchange) Refused(err error) {
	if left := leftBy(err); left != nil {
		x.setRate(left)
	}
}

// Advance moves the exchange on to its next model attempt. The answer then names the
// first model attempt, where the chain of receipts begins.
func (x *exchange) Advance(id string, to *catalog.Model) {
	setDeprecation(x.Header(), to.DeprecatedAt)
	if x.Header().Get(firstRequest) == "" {
		x.Header().Set(firstRequest, x.id)
	}
	x.facts = append(x.facts, slog.String("continues", x.id))
	x.id, x.model = id, to.ID
	x.request = x.request.WithContext(telemetry.WithRequestID(x.request.Context(), x.id))
	x.nameRequest()
}

// firstRequest names the first model attempt in an answer of a later one. The receipt of
// each model attempt names the next.
const firstRequest = "X-Svc-First-Request-Id"

// nameRequest names the request in the answer. Once headers are sent, that is the first
// model attempt, whose receipt leads to the last.
func (x *exchange) nameRequest() {
	x.Header().Set("X-Svc-Request-Id", x.id)
	x.Header().Set("X-Request-Id", x.id)
}
