// Package apierror gives every error the form in which the public sees it: an
// HTTP status, the OpenAI error body, and the headers that tell a client
// whether and when to try again.
//
// Table is the one place where a reason gets its status. A fault whose reason
// is not public keeps its message only if its kind says whose fault it is;
// what is the service's own fault is answered with a constant text, and the
// cause stays in the log.
package apierror

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
)

// Answer is one error as the public sees it.
type Answer struct {
	openai.Error
	// Final tells the client that no retry can mend it.
	Final bool
	// RetryAfter is how long to wait before a retry; 0 says nothing.
	RetryAfter time.Duration
	// Internal tells that the fault is the service's own, for the log.
	Internal bool
	// Refused tells that the words are the engine's.
	Refused bool
}

// CodeRefused stands for an engine's own codes where they are not shown.
const CodeRefused = "engine_refused"

// KnownCode is the code for logs and records: one of ours, never an engine's.
func (a Answer) KnownCode() string {
	if a.Refused {
		return CodeRefused
	}
	return a.Code
}

// final marks a fault that no retry can mend although its reason may be mended
// by one.
const final = "final"

// later marks a fault that no retry within seconds can mend.
const later = "later"

// fallback has the reason why another provider than the requested one was tried.
const fallback = "fallback_reason"

// NotSoon marks f so that its answer tells clients not to try again by themselves,
// and still says when it may be worth it.
func NotSoon(f *fault.Fault) *fault.Fault { return f.With(later, "true") }

// AfterFallback lets an error say why the request had fallen back on another
// provider than the requested one; an empty reason says nothing.
func AfterFallback(err error, reason string) error {
	var refusal *Refusal
	if reason == "" || err == nil {
		return err
	}
	if errors.As(err, &refusal) {
		said := refusal.Said
		said.Reason = reason
		return &Refusal{said}
	}
	if f, ok := fault.As(err); ok {
		_ = f.With(fallback, reason)
	}
	return err
}

// Finally marks f so that its answer tells clients not to try again.
func Finally(f *fault.Fault) *fault.Fault { return f.With(final, "true") }

// OfPeer gives the error of a call to another service the form in which it
// concerns the client: a service that takes too long does not answer.
func OfPeer(err error) error {
	if f, ok := fault.As(err); ok && f.Kind == fault.Timeout {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	return err
}

// Refusal is an engine's own refusal of the content, shown to the client with
// the engine's status and words.
type Refusal struct{ Said openai.Error }

// Error is the refusal in short, without the engine's message, which may quote
// the prompt.
func (r *Refusal) Error() string {
	return "the engine refused the request with status " + strconv.Itoa(r.Said.Status)
}

// NewRefusal makes a refusal out of what an engine answered. Statuses that
// speak of the engine's own access, and not of the content, become an upstream
// error; 409 becomes 400, because clients would retry it.
func NewRefusal(status int, e openai.Error) error {
	switch {
	case status < 400 || status > 499, status == http.StatusUnauthorized, status == http.StatusPaymentRequired,
		status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return fault.New(fault.Unavailable, UpstreamError, "the provider could not serve the request")
	case status == http.StatusConflict:
		status = http.StatusBadRequest
	}
	e.Status = status
	if e.Type == "" {
		e.Type = openai.TypeInvalidRequest
	}
	if e.Message == "" {
		e.Message = "the model refused the request"
	}
	return &Refusal{e}
}

// Of gives an error its public form.
func Of(err error) Answer {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return Answer{Error: refusal.Said, Final: true, Refused: true}
	}
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Internal, fault.InternalError, "")
	}
	row, code := rowOf(f)
	a := Answer{
		Error: openai.Error{
			Status: row.Status, Type: row.Type, Code: string(code), Param: f.Param, Message: f.Message, Reason: f.Meta[fallback],
		},
		Final:      row.Final || f.Meta[later] != "",
		RetryAfter: max(f.RetryAfter, 0),
		Internal:   row.Status == http.StatusInternalServerError,
	}
	if a.RetryAfter == 0 {
		a.RetryAfter = row.RetryAfter
	}
	if f.Meta[final] != "" {
		a.Final, a.RetryAfter = true, 0
	}
	if a.Internal {
		a.Message = "The server had an error while processing your request."
	}
	return a
}

// rowOf finds the row of a fault's reason, or of its kind when the reason is
// not public.
func rowOf(f *fault.Fault) (Row, fault.Reason) {
	if row, ok := Table[f.Reason]; ok {
		return row, f.Reason
	}
	if f.Kind == fault.Internal {
		return Table[fault.InternalError], fault.InternalError
	}
	if reason, ok := reasonOfKind[f.Kind]; ok {
		return Table[reason], reason
	}
	return kindRows[f.Kind], f.Reason
}

// SetHeaders writes the headers that belong to the answer.
func (a Answer) SetHeaders(h http.Header) {
	if a.Final {
		h.Set("X-Should-Retry", "false")
	}
	if a.RetryAfter > 0 {
		seconds := (a.RetryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(a.RetryAfter.Milliseconds(), 10))
	}
	if a.Reason != "" {
		h.Set("X-Svc-Fallback-Reason", a.Reason)
	}
	if a.Status == http.StatusUnauthorized {
		h.Set("Www-Authenticate", "Bearer")
	}
}

// Write answers with the error. Nothing may have been written before.
func (a Answer) Write(w http.ResponseWriter, requestID string) error {
	return a.send(w, "application/json", openai.AppendError(nil, a.Error, requestID))
}
