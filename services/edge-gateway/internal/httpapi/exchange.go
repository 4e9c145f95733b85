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
	put  = []string{http.MethodPut}
)

// surface is what one listener answers.
type surface struct {
	// find gives the route of an escaped path and the path's variable part, still escaped.
	find func(path string) (route, string)
	// pages reports whether pages of other origins may call, and consumers hear of
	// their rates: on the public listener, and on no other.
	pages bool
	// admit refuses a request before it has a route; nil refuses none.
	admit func(*http.Request) error
}

// exchange is one request and its answer. It is the http.ResponseWriter of the
// answer, and remembers the status that was sent.
type exchange struct {
	id      string
	started time.Time
	request *http.Request
	route   route
	rest    string // the path's variable part, escaped
	pages   bool   // whether pages of other origins may call; see surface

	w       http.ResponseWriter
	control *http.ResponseController
	status  int              // that was sent; 0 before
	unread  bool             // the request's body has not been read to its end
	before  func(status int) // adds the headers that come last; nil for none
	tape    *tape            // keeps the answer; nil for none
	raw     *bytes.Buffer    // the body, until what is sent has been made of it

	// Whose rate the answer tells of; see rate.go.
	who           *auth.Principal // nil without a good key
	authenticated bool            // whether who has been found out
	category      string          // of the model, once it is known
	rateKnown     bool            // the rate is told, or is none

	err   error       // the error that was answered, if any
	facts []slog.Attr // what the log line says besides

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

// begin notes the status. A connection with a body still to come is not used
// again, so that net/http does not wait for the body before it answers.
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

// authenticate tells whose key the request carries.
func (h *Handler) authenticate(x *exchange) (who *auth.Principal, err error) {
	who, err = h.Auth.Authenticate(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	x.who, x.authenticated = who, true
	return who, err
}

// authenticateAfresh is authenticate for what billing-ledger does not admit.
func (h *Handler) authenticateAfresh(x *exchange) (who *auth.Principal, err error) {
	who, err = h.Auth.AuthenticateAfresh(x.request.Context(), x.request.Header, h.Addresses.Of(x.request))
	x.who, x.authenticated = who, true
	return who, err
}

// setWriteDeadline bounds the time in which the client must read an answer. A
// connection that knows no deadlines has none.
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

// tell answers with an error, unless nobody is there to read it or an answer
// was begun.
func (h *Handler) tell(x *exchange, err error) {
	if f, ok := fault.As(err); ok && f.Kind == fault.Canceled && !clientLeft(x.request.Context()) {
		// It was a peer that went away or this server that stops, not the client.
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

// linger is how long the connection of a refused request without a good key stays
// open for what its client has sent already: a connection that is closed on unread
// bytes is reset, and the client might not read the answer.
const linger = 500 * time.Millisecond

// leaveUnread waits no longer for a body that belongs to nobody. Otherwise net/http
// would wait for up to 256 KiB of it after the answer, for as long as a body may
// take.
func (x *exchange) leaveUnread() {
	if x.unread && x.who == nil && x.status >= http.StatusBadRequest {
		_ = x.control.SetReadDeadline(time.Now().Add(linger))
	}
}

// entered is what a request that is paid for begins with.
type entered struct {
	who   *auth.Principal
	pin   admission.Pin
	token idempotency.Token // empty without an Idempotency-Key
}

// enter does what every request that is paid for begins with, before its body
// of at most limit bytes is read: who asks, and of whom. The order of its steps
// is the public order of errors: 413, 401, 400. checkHead looks at the headers
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

// expectBody bounds the time in which the body must arrive, whether or not
// anybody reads it: net/http itself reads what a handler left. A connection that
// knows no deadlines has none.
func (h *Handler) expectBody(x *exchange) {
	_ = x.control.SetReadDeadline(time.Now().Add(h.cfg.BodyTimeout))
	x.unread = true
	x.request.Body = &arrival{ReadCloser: x.request.Body, whole: func() {
		x.unread = false
		// The connection goes on being watched for a client that leaves, and a
		// deadline must not pass for one.
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

// Refused says what a refusal by admission tells of the rate.
func (x *exchange) Refused(err error) {
	if left := leftBy(err); left != nil {
		x.setRate(left)
	}
}

// Advance makes the exchange that of its next model attempt. The client is told
// where the receipts of all of them begin.
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

// firstRequest names the first model attempt of an answer that a later one gives;
// each receipt names the model attempt that went on.
const firstRequest = "X-Svc-First-Request-Id"

// nameRequest tells the client which request this is; once headers are sent, it
// is the receipt of the first model attempt that leads to the last.
func (x *exchange) nameRequest() {
	x.Header().Set("X-Svc-Request-Id", x.id)
	x.Header().Set("X-Request-Id", x.id)
}
