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
	// Flush sends the gathered events. After an error the client cannot be written to.
	Flush() error
	// KeepAlive shows the client that the stream is still under way. Within an interval after the last write
	// it does nothing and returns the rest of the interval; otherwise it returns 0. It sends the gathered
	// events too. While they are not paid for, it sends nothing.
	KeepAlive(interval time.Duration, paid bool) (left time.Duration, err error)
	// Whole ends an answer that was served and is billed: with its body, or with the end of its stream.
	Whole(w Whole) error
	// Fail ends an answer that was not served. The caller of Run answers when no answer has begun.
	Fail(f Failure)
	// Begun reports whether headers have been sent.
	Begun() bool
}

// Client is the caller of a request. Beside the answer it gets the request's progress.
type Client interface {
	Sink
	// Admitted says on which terms the request was admitted.
	Admitted(rate *billingv1.RateLimit, paid billingv1.BillingType)
	// Refused says that the request was not admitted, or has no candidate. The error may have the key's rate.
	Refused(err error)
	// Advance says that the request advances to another model, under another id.
	Advance(id string, to *catalog.Model)
}

// Merged is the client of a request with several prompts: one answer, of which each prompt's answer is a
// part. Parts may be written beside each other. All other methods are called while no prompt runs.
type Merged interface {
	// Admitted says on which terms the prompts were admitted.
	Admitted(rate *billingv1.RateLimit, paid billingv1.BillingType)
	// Refused says that a prompt was not admitted. The error may have the key's rate.
	Refused(err error)
	// Begun reports whether headers have been sent.
	Begun() bool
	// Part takes the answer to the i-th prompt.
	Part(i int) Sink
	// Whole ends an answer whose prompts were all served. The event has the usage of a stream; nil for none.
	Whole(w Whole, usage *rewrite.Event) error
	// FailPart ends an answer of which one prompt has failed. Where no stream has begun and there are no
	// choices, the caller of RunPrompts answers.
	FailPart(f PartFailure)
}

// Served is the provider that serves, and the route to it.
type Served struct {
	Candidate *routerv1.Candidate
	Fallback  eventsv1.FallbackReason
	Attempts  int
	// FirstContent is the time from receipt to the first content.
	FirstContent time.Duration
}

// Whole is the end of an answer that was served. For a stream all its fields are empty.
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
	// Attempts is how many attempts were made; 0 for an unknown number.
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
