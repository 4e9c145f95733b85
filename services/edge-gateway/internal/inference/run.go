package inference

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
)

// session is one call under way.
type session struct {
	engine     *Engine
	call       *Call
	client     context.Context // tells a client that left from a time that ran out
	candidates []*routerv1.Candidate
	tried      []string
	failures   []*failure
	fallback   eventsv1.FallbackReason
	out        *output
	beat       *beat // keep-alives of a stream; nil for a whole answer
	result     Result
	written    int64 // tokens that were gathered by the last flush

	answer answer
}

// run tries candidates until one has served, or nothing is left to try.
func (s *session) run(ctx context.Context) error {
	for {
		candidate, err := s.next(ctx)
		if err != nil {
			return err
		}
		started := s.engine.clock.Now()
		s.route(candidate)
		failed := s.attempt(ctx, candidate)
		s.record(candidate, failed, s.engine.clock.Now().Sub(started))
		switch {
		case failed == nil:
			return nil
		case !failed.retry:
			return failed.err
		}
		s.failures = append(s.failures, failed)
		s.tried = append(s.tried, candidate.GetProviderId())
	}
}

// next is the candidate to try now. Its error is the outcome of the call.
func (s *session) next(ctx context.Context) (*routerv1.Candidate, error) {
	if ctx.Err() != nil {
		return nil, s.ended()
	}
	attempts := len(s.failures)
	if attempts == s.maxAttempts() || attempts > 0 && s.firstContentLeft() <= 0 {
		return nil, s.exhausted()
	}
	if len(s.candidates) == 0 {
		if s.bound() {
			return nil, s.exhausted()
		}
		more, err := s.call.Again(ctx, s.tried)
		if ctx.Err() != nil {
			return nil, s.ended()
		}
		if err != nil || len(more) == 0 {
			return nil, s.exhausted() // what failed before says more than this
		}
		s.candidates = more
	}
	candidate := s.candidates[0]
	s.candidates = s.candidates[1:]
	return candidate, nil
}

// maxAttempts is how many candidates are tried.
func (s *session) maxAttempts() int {
	if s.call.Grant.SingleAttempt {
		return 1
	}
	return s.engine.cfg.MaxAttempts
}

// failedElsewhere reports whether a provider that worked on the request has failed
// it. One that does not do for it what its owner does not allow has not.
func (s *session) failedElsewhere() bool {
	owners := s.call.NamesMedia || s.call.EngineMembers
	return slices.ContainsFunc(s.failures, func(f *failure) bool {
		return f.reached && (!owners || f.engineStatus != http.StatusNotImplemented)
	})
}

// bound tells that only the pinned provider may serve.
func (s *session) bound() bool {
	pin := s.call.Order.Pin
	return pin.ProviderID != "" && !pin.AllowFallbacks
}

// last reports whether the candidate under way is the last that may be tried.
func (s *session) last() bool {
	return len(s.candidates) == 0 || int(s.attemptNumber()) >= s.engine.cfg.MaxAttempts
}

func (s *session) firstContentLeft() time.Duration {
	began := s.call.BeganAt
	if began.IsZero() {
		began = s.call.ReceivedAt
	}
	return s.engine.cfg.FirstContentAll - s.engine.clock.Now().Sub(began)
}

// route notes how the request comes to this candidate.
func (s *session) route(candidate *routerv1.Candidate) {
	route := RouteOf(s.call.Order.Pin)
	if pin := route.GetRequestedProviderId(); pin != "" && candidate.GetProviderId() != pin {
		route.FallbackReason = s.fallbackReason()
	}
	s.result.Route = route
}

// RouteOf is the route of a request that has met no provider yet.
func RouteOf(pin admission.Pin) *eventsv1.Route {
	if pin.ProviderID == "" {
		return &eventsv1.Route{Mode: eventsv1.RouteMode_ROUTE_MODE_AUTO}
	}
	return &eventsv1.Route{Mode: eventsv1.RouteMode_ROUTE_MODE_EXPLICIT, RequestedProviderId: pin.ProviderID}
}

// fallbackReason is why the pinned provider does not serve: the router said
// so, or it was tried.
func (s *session) fallbackReason() eventsv1.FallbackReason {
	switch {
	case s.fallback != eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED:
		return s.fallback
	case len(s.failures) > 0 && s.failures[0].reached:
		return eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED
	}
	return eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE
}

func (s *session) record(candidate *routerv1.Candidate, f *failure, took time.Duration) {
	record := &billingv1.AttemptRecord{
		Attempt:      s.attemptNumber(),
		ProviderId:   candidate.GetProviderId(),
		ProviderName: candidate.GetProviderName(),
		HubId:        candidate.GetHubId(),
		Result:       resultServed,
		LatencyMs:    took.Milliseconds(),
	}
	if f != nil {
		record.Result, record.EngineStatus = f.result, f.engineStatus
	}
	s.result.Attempts = append(s.result.Attempts, record)
}

// attemptNumber is the number of the attempt under way, from 1.
func (s *session) attemptNumber() uint32 { return uint32(len(s.failures)) + 1 }

// open is the message that begins an attempt on a candidate.
func (s *session) open(candidate *routerv1.Candidate) *hubv1.DispatchOpen {
	c := s.call
	sent, bound := c.sentTo(candidate)
	total := max(s.engine.cfg.Total-s.engine.since(c), time.Millisecond)
	return &hubv1.DispatchOpen{
		RequestId:             c.RequestID,
		Attempt:               s.attemptNumber(),
		ProviderId:            candidate.GetProviderId(),
		NodeId:                candidate.GetNodeId(),
		Epoch:                 candidate.GetEpoch(),
		ModelId:               c.Order.ModelID,
		Stream:                c.Stream,
		Body:                  sent.Body,
		ModelOffset:           uint32(sent.Model.Start),
		ModelLength:           uint32(sent.Model.Len()),
		IncludeUsage:          c.IncludeUsage || c.IncludeCost || !c.Stream,
		EstimatedPromptTokens: c.Order.PromptTokens,
		HeldPromptTokens:      c.Order.Bounds.HoldPromptTokens,
		MaxOutputTokens:       bound,
		Choices:               c.Choices,
		StopAsked:             c.StopAsked,
		HiddenReasoning:       c.HiddenReasoning,
		NamesMedia:            c.NamesMedia,
		EngineMembers:         c.EngineMembers,
		PriceVersionId:        c.Grant.Terms.GetPriceVersionId(),
		Rates:                 c.Grant.Terms.GetRates(),
		Route:                 s.result.Route,
		FirstContentTimeoutMs: s.firstContentTimeout(total).Milliseconds(),
		TotalTimeoutMs:        total.Milliseconds(),
		Endpoint:              c.Endpoint,
		ContentType:           c.ContentType,
		AnswerForm:            c.Form,
		Inputs:                c.Inputs,
		AccountTag:            c.Order.AccountTag,
		UsualFirstContentMs:   c.Grant.UsualFirstContentMs,
		FailedElsewhere:       s.failedElsewhere(),
		LedgerMac:             c.Grant.Terms.GetLedgerMac(),
	}
}

// What comes before the first content.
const (
	// prefillRate is how many tokens of a prompt an engine reads in a second at the
	// least.
	prefillRate = 500
	// fetching is how long an agent may fetch the media that a request names.
	fetching = 10 * time.Second
)

// firstContentTimeout is how long this attempt may take to its first content: what
// is configured and the time to fetch media and to read the prompt, within what is left for all
// attempts. The last has all that is left, because nobody else can use it.
// An engine shows nothing of a whole answer before its end, and of an image's
// stream not before it is drawn; of a transcript it must have the audio first,
// which takes as long as its upload does. So those have the whole time.
func (s *session) firstContentTimeout(total time.Duration) time.Duration {
	if !s.call.Stream || s.call.Endpoint == hubv1.Endpoint_ENDPOINT_IMAGES ||
		s.call.Endpoint == hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS {
		return total
	}
	limit := s.firstContentLeft()
	if !s.last() {
		reading := time.Duration(s.call.Order.PromptTokens) * time.Second / prefillRate
		if s.call.NamesMedia {
			reading += fetching
		}
		limit = min(s.engine.cfg.FirstContent+reading, limit)
	}
	return max(min(limit, total), time.Millisecond)
}

// ended says why the context is over: this process is being stopped, the client
// left, or the time did.
func (s *session) ended() error {
	switch {
	case s.stopped():
		return stopping()
	case s.client.Err() != nil:
		return clientGone()
	}
	return tooLate()
}

// stopped tells a server that ends its requests, which it does with a cause,
// from a client that left, for which net/http has none.
func (s *session) stopped() bool {
	return s.client.Err() != nil && !errors.Is(context.Cause(s.client), context.Canceled)
}

// parting is why the call is over, as far as the client's context tells.
func (s *session) parting() parting {
	switch {
	case s.stopped():
		return stopped
	case s.client.Err() != nil:
		return clientLeft
	}
	return gaveUp
}

// lastParting is why an attempt has ended. It is for the session's goroutine.
func (s *session) lastParting() parting {
	switch why := s.parting(); {
	case s.result.Lapsed:
		return stopped
	case why == gaveUp && s.out.failed:
		return clientLeft
	default:
		return why
	}
}

func stopping() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "The service is being restarted.").After(time.Second)
}

func lapsed() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable,
		"The service stood still for too long while it served this request. Send it again.").After(time.Second)
}

func clientGone() error {
	return fault.New(fault.Canceled, fault.ClientClosed, "The client closed the request.")
}

// silent is an attempt whose hub said nothing for longer than it may.
func silent() *failure {
	return &failure{err: tooLate(), retry: true, result: resultTimeout, reached: true}
}

func tooLate() error {
	return fault.New(fault.Timeout, fault.DeadlineExceeded, "The request took too long.")
}

func upstream() error {
	return fault.New(fault.Unavailable, apierror.UpstreamError, "The provider failed while serving the request.")
}
