// Package apierror gives every error its public form: an HTTP status, the OpenAI error
// body, and the headers that say whether and when a client should try again.
//
// Table is the one place where a reason gets its status. A fault whose reason is not
// public keeps its message only if its kind says who is at fault. A fault of the service
// itself is answered with a constant text, and its cause stays in the log.
package apierror

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
)

// Answer is the public form of one error.
type Answer struct {
	openai.Error
	// Final says that no retry can mend the error.
	Final bool
	// RetryAfter is how long a client should wait before a retry; 0 for no such time.
	RetryAfter time.Duration
	// Internal says that the fault is the service's own, for the log.
	Internal bool
	// Fallback says why another provider than the requested one was tried; empty for none.
	Fallback string
	// Refused says that the words are the engine's.
	Refused bool
}

// CodeRefused takes the place of an engine's own codes where those are not shown.
const CodeRefused = "engine_refused"

// KnownCode returns the code for logs and records: one of ours, never an engine's.
func (a Answer) KnownCode() string {
	if a.Refused {
		return CodeRefused
	}
	return a.Code
}

// final marks a fault that no retry can mend, although a retry may mend other faults of
// its reason.
const final = "final"

// later marks a fault that no retry within seconds can mend.
const later = "later"

// fallback has the reason why another provider than the requested one was tried.
const fallback = "fallback_reason"

// billing-ledger names the budget or the cap that refuses a request, and says when it begins
// anew.
const (
	limitName = "limit_name"
	resetsAt  = "resets_at"
)

// NotSoon marks f: its answer has X-Should-Retry: false, and still says after how long a
// retry may succeed.
func NotSoon(f *fault.Fault) *fault.Fault { return f.With(later, "true") }

// AfterFallback adds to an error why the request had fallen back on another provider than
// the requested one: in the header X-Svc-Fallback-Reason and in error.metadata.reason. An
// empty reason adds nothing.
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

// Finally marks f: its answer tells clients not to try again.
func Finally(f *fault.Fault) *fault.Fault { return f.With(final, "true") }

// OfPeer turns the error of a call to another service into the error for the client: a
// service that takes too long counts as a service that does not answer.
func OfPeer(err error) error {
	if f, ok := fault.As(err); ok && f.Kind == fault.Timeout {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	return err
}

// Refusal is an engine's own refusal of the content. The client gets it with the engine's
// status and words.
type Refusal struct{ Said openai.Error }

// Error returns the refusal in short, without the engine's message, which may quote the
// prompt.
func (r *Refusal) Error() string {
	return "the engine refused the request with status " + strconv.Itoa(r.Said.Status)
}

// NewRefusal makes a refusal of an engine's answer. A status about the engine's own
// access, and not about the content, becomes an upstream error. 409 becomes 400, because
// clients would retry it.
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

// Of returns the public form of an error.
func Of(err error) Answer {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return Answer{Error: refusal.Said, Final: true, Refused: true, Fallback: refusal.Said.Reason}
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
	if a.Fallback = a.Reason; f.Meta[limitName] != "" {
		a.Reason, a.ResetsAt = f.Meta[limitName], f.Meta[resetsAt]
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

// rowOf returns the row of a fault's reason, or of its kind when the reason is not
// public.
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

// SetHeaders writes the headers of the answer.
func (a Answer) SetHeaders(h http.Header) {
	if a.Final {
		h.Set("X-Should-Retry", "false")
	}
	if a.RetryAfter > 0 {
		seconds := (a.RetryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(a.RetryAfter.Milliseconds(), 10))
	}
	if a.Fallback != "" {
		h.Set("X-Svc-Fallback-Reason", a.Fallback)
	}
	if a.Status == http.StatusUnauthorized {
		h.Set("Www-Authenticate", "Bearer")
	}
}

// Write answers with the error. The caller has written nothing before.
func (a Answer) Write(w http.ResponseWriter, requestID string) error {
	return a.send(w, "application/json", openai.AppendError(nil, a.Error, requestID))
}
