package inference

import (
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// Sink takes the answer to one request, in one dialect of the API.
//
// One goroutine calls it at a time: the request's, and the keep-alive timer while that goroutine waits for
// a hub.
type Sink interface {
	// Commit says who serves. A stream begins with it.
	Commit(s Served)
	// Event gathers one event of a stream.
	Event(e rewrite.Event)
	// Flush sends what was gathered. An error says that the client cannot be written to.
	Flush() error
	// KeepAlive shows the client that the stream goes on. Within an interval after the last write it does
	// nothing and returns what is left of the interval; otherwise it returns 0. What was gathered is sent
	// too; while that is not paid for, nothing is sent.
	KeepAlive(interval time.Duration, paid bool) (left time.Duration, err error)
	// Whole ends an answer that was served and is billed: with its body, or as its stream ends.
	Whole(w Whole) error
	// Fail ends an answer that was not served. An answer that has not begun is left to the caller of Run.
	Fail(f Failure)
	// Begun reports whether headers have been sent.
	Begun() bool
}

// Client is who asked. Besides the answer it hears how its request goes on.
type Client interface {
	Sink
	// Admitted says on which terms the request was admitted.
	Admitted(rate *billingv1.RateLimit, paid billingv1.BillingType)
	// Refused says that the request was not admitted, or has no candidate; the error may tell of the rate.
	Refused(err error)
	// Advance says that the request goes on under another id, with another model.
	Advance(id string, to *catalog.Model)
}

// Merged is the client of a request with several prompts: one answer, of which each prompt's is a part.
// Parts may be written beside each other; all other methods are called while no prompt runs.
type Merged interface {
	// Admitted says on which terms the prompts were admitted.
	Admitted(rate *billingv1.RateLimit, paid billingv1.BillingType)
	// Refused says that a prompt was not admitted; the error may tell of the rate.
	Refused(err error)
	// Begun reports whether headers have been sent.
	Begun() bool
	// Part takes the answer to the i-th prompt.
	Part(i int) Sink
	// Whole ends an answer whose prompts were all served. The event tells the usage of a stream; nil for
	// none.
	Whole(w Whole, usage *rewrite.Event) error
	// FailPart ends an answer of which one prompt has failed. Where no stream has begun and there are no
	// choices, the answer is left to the caller of RunPrompts.
	FailPart(f PartFailure)
}

// Served is who serves, and how the request came to it.
type Served struct {
	Candidate *routerv1.Candidate
	Fallback  eventsv1.FallbackReason
	Attempts  int
	// FirstContent is the time from receipt to the first content.
	FirstContent time.Duration
}

// Whole is the end of an answer that was served. A stream has none of these but ends with it.
type Whole struct {
	ContentType string
	Body        []byte
	// Cost is in dollars, exact, and a JSON number.
	Cost string
	// Latency is the time from receipt to the end.
	Latency time.Duration
}

// Failure is the end of an answer that was not served.
type Failure struct {
	Err error
	// RequestID names the request that failed.
	RequestID string
	// Attempts is how many were made; 0 says nothing.
	Attempts int
	// Refused is the provider whose engine refused the request; nil for none.
	Refused *Served
	// Unpaid reports whether gathered events must be dropped, because they may not be paid for.
	Unpaid bool
}

// PartFailure is the end of an answer to several prompts of which one has failed.
type PartFailure struct {
	// Part is the prompt that failed. Unless headers have been sent, the whole answer gets the headers of its
	// answer.
	Part   int
	Answer apierror.Answer
	// Choices are the choices of the other prompts, without brackets; empty for none.
	Choices []byte
	// Usage is the billed usage of the other prompts, as a JSON object, and Cost its price in dollars.
	Usage, Cost string
}
