package inference

import (
	"context"
	"errors"
	"math"
	"time"

	"svc.internal/pkg/crash"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

const (
	// flushBytes is how many gathered bytes are written at once, whether or not more follow.
	flushBytes = 64 << 10
	// prefillRate is the least number of prompt tokens that an engine reads in a second.
	prefillRate = 500
	// fetching is how long an agent may fetch the media that a request names.
	fetching = 10 * time.Second
)

// attempt runs the request on one candidate.
func (m *modelAttempt) attempt(candidate *routerv1.Candidate) verdict {
	started := m.runner.Clock.Now()
	m.route(candidate)
	v := m.relay(candidate)
	m.record(candidate, v, started)
	if v.retry {
		m.failures = append(m.failures, v)
		m.tried = append(m.tried, candidate.GetProviderId())
	}
	return v
}

// route notes how the request comes to this candidate.
func (m *modelAttempt) route(candidate *routerv1.Candidate) {
	route := routeOf(m.req.Pin)
	if pin := route.GetRequestedProviderId(); pin != "" && candidate.GetProviderId() != pin {
		route.FallbackReason = m.fallbackReason()
	}
	m.result.Route = route
}

// fallbackReason is why the pinned provider does not serve: the router found it unavailable, or it was tried
// and failed.
func (m *modelAttempt) fallbackReason() eventsv1.FallbackReason {
	switch {
	case m.grant.Fallback != eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED:
		return m.grant.Fallback
	case len(m.failures) > 0 && m.failures[0].reached:
		return eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED
	}
	return eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE
}

func (m *modelAttempt) record(candidate *routerv1.Candidate, v verdict, started time.Time) {
	now := m.runner.Clock.Now()
	record := &billingv1.AttemptRecord{
		Attempt:      m.attemptNumber(),
		ProviderId:   candidate.GetProviderId(),
		ProviderName: candidate.GetProviderName(),
		HubId:        candidate.GetHubId(),
		Result:       v.result,
		EngineStatus: v.engineStatus,
		LatencyMs:    now.Sub(started).Milliseconds(),
	}
	if at := m.contentAt; m.req.Answer.Stream && !at.IsZero() {
		record.FirstContentMs = max(1, at.Sub(started).Milliseconds())
		record.ContentMs, record.ClientMs = now.Sub(at).Milliseconds(), m.reading.Milliseconds()
	}
	for _, p := range m.passed {
		record.PassedOver = append(record.PassedOver,
			&billingv1.PassedOver{Reason: p.GetReason(), Count: int32(min(p.GetCount(), math.MaxInt32))})
	}
	m.passed = nil
	m.result.Attempts = append(m.result.Attempts, record)
}

// attemptNumber returns the number of the attempt under way, from 1.
func (m *modelAttempt) attemptNumber() uint32 { return uint32(len(m.failures)) + 1 }

// relay carries one candidate's answer to the client.
func (m *modelAttempt) relay(candidate *routerv1.Candidate) verdict {
	m.begin()
	s, err := m.dispatch(candidate)
	if err != nil {
		if m.ctx.Err() != nil {
			return m.cut()
		}
		return unreachable(err)
	}
	defer func() {
		if s.close(m.lastWhy()); s.owed() {
			m.result.Committed, m.result.Served = m.attemptNumber(), candidate
		}
	}()
	defer context.AfterFunc(m.ctx, func() { s.giveUp(whyOver(m.client)) })()
	guard := time.AfterFunc(m.firstContentTimeout(m.left())+m.runner.cfg.HubGrace, s.expire)
	defer guard.Stop()
	for {
		message, err := m.receive(s)
		switch {
		case m.ctx.Err() != nil || m.out.failed:
			return m.cut()
		case err != nil && s.expired():
			return silent()
		case err != nil:
			return broken(err, m.result.Committed != 0)
		}
		v := m.take(candidate, s, message)
		if more := message.GetEvent().GetMore(); !more || m.out.gathered >= flushBytes {
			if v := m.flush(); v.final() {
				return v
			}
		}
		if v.final() {
			return v
		}
	}
}

// lastWhy is why an attempt has ended. It is for the request's goroutine.
func (m *modelAttempt) lastWhy() departure {
	switch why := whyOver(m.client); {
	case m.result.Lapsed:
		return stopped
	case why == gaveUp && m.out.failed:
		return clientLeft
	default:
		return why
	}
}

// begin prepares for the candidate's answer.
func (m *modelAttempt) begin() {
	form := rewrite.New(&m.answer, m.runner.Clock.Now)
	if m.merge != nil {
		form = m.merge.Form(m.part, form)
	}
	m.out.begin(form)
}

// dispatch begins the candidate's stream. The caller closes it.
func (m *modelAttempt) dispatch(candidate *routerv1.Candidate) (*hubStream, error) {
	hub, err := m.runner.Hubs(candidate.GetDispatchAddress())
	if err != nil {
		return nil, err
	}
	free := freeTime
	if m.req.Models[m.at].Gateway {
		free = 0
	}
	return openStream(m.ctx, hub, m.runner.Clock, free, func() *hubv1.DispatchOpen { return m.open(candidate) })
}

// open is the message that begins an attempt on a candidate.
func (m *modelAttempt) open(candidate *routerv1.Candidate) *hubv1.DispatchOpen {
	req, terms := m.req, m.grant.Terms
	sent, bound := m.bodyFor(candidate)
	total := max(m.left(), time.Millisecond)
	return &hubv1.DispatchOpen{
		RequestId:             m.id,
		Attempt:               m.attemptNumber(),
		ProviderId:            candidate.GetProviderId(),
		NodeId:                candidate.GetNodeId(),
		Epoch:                 candidate.GetEpoch(),
		ModelId:               m.asks.ModelID,
		Stream:                req.Answer.Stream,
		Body:                  sent.Body, // which never changes, because a hub in this process shares it
		ModelOffset:           uint32(sent.Model.Start),
		ModelLength:           uint32(sent.Model.Len()),
		IncludeUsage:          m.answer.ShowUsage || m.answer.ShowCost || !req.Answer.Stream,
		EstimatedPromptTokens: m.asks.Bounds.PromptTokens,
		HeldPromptTokens:      m.asks.Bounds.HoldPromptTokens,
		MaxOutputTokens:       bound,
		Choices:               int32(req.Answer.Choices),
		StopAsked:             req.StopAsked,
		HiddenReasoning:       req.Models[m.at].HiddenReasoning,
		NamesMedia:            req.NamesMedia,
		EngineMembers:         req.EngineMembers,
		PriceVersionId:        terms.GetPriceVersionId(),
		Rates:                 terms.GetRates(),
		Route:                 m.result.Route,
		FirstContentTimeoutMs: m.firstContentTimeout(total).Milliseconds(),
		TotalTimeoutMs:        total.Milliseconds(),
		Endpoint:              req.Endpoint,
		ContentType:           req.ContentType,
		AnswerForm:            req.AnswerForm,
		Inputs:                req.Inputs,
		AccountTag:            req.AccountTag,
		UsualFirstContentMs:   m.grant.UsualFirstContentMs,
		FailedElsewhere:       failedElsewhere(m.failures, req.NamesMedia || req.EngineMembers),
		LedgerMac:             terms.GetLedgerMac(),
		Ticket:                terms.GetTicket(),
	}
}

// last reports whether the candidate under way is the last that may be tried.
func (m *modelAttempt) last() bool {
	return len(m.candidates) == 0 || int(m.attemptNumber()) >= m.runner.cfg.MaxAttempts
}

// bodyFor returns the body for a candidate and the bound of one choice, in tokens. A client that named no
// bound gets as much as the candidate's own window leaves beside the prompt, because engines refuse a bound
// that does not fit their window.
func (m *modelAttempt) bodyFor(candidate *routerv1.Candidate) (openaiapi.Sent, int64) {
	bound := m.asks.Bounds.MaxOutputTokens
	window := candidate.GetContextLength()
	if m.asks.ExplicitMaxTokens > 0 || window <= 0 || !m.sent.Bounds[0].Found() {
		return m.sent, bound
	}
	left := max(1, window-m.asks.Bounds.PromptRoom)
	if left >= bound {
		return m.sent, bound
	}
	return m.sent.For(m.sent.Name(), left), left
}

// firstContentTimeout returns how long this attempt may take to its first content: the configured time and
// the time to fetch media and to read the prompt, within the time that all attempts share. The last attempt
// has all the rest of that time, because no other can use it. A whole answer, a stream of images and a
// transcript have the request's whole time: an engine shows nothing of a whole answer before its end and
// nothing of an image before it is drawn, and it must have the audio before it transcribes.
func (m *modelAttempt) firstContentTimeout(total time.Duration) time.Duration {
	if !m.req.Answer.Stream || m.req.Endpoint == hubv1.Endpoint_ENDPOINT_IMAGES ||
		m.req.Endpoint == hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS {
		return total
	}
	limit := m.firstContentLeft()
	if !m.last() {
		reading := time.Duration(m.asks.Bounds.PromptTokens) * time.Second / prefillRate
		if m.req.NamesMedia {
			reading += fetching
		}
		limit = min(m.runner.cfg.FirstContent+reading, limit)
	}
	return max(min(limit, total), time.Millisecond)
}

// receive waits for the hub's next message. Meanwhile the client is kept alive.
func (m *modelAttempt) receive(s *hubStream) (*hubv1.DispatchResponse, error) {
	if m.alive != nil {
		m.alive.handOver(s)
		defer m.alive.takeBack()
	}
	return s.receive()
}

// take handles one message of the hub.
func (m *modelAttempt) take(candidate *routerv1.Candidate, s *hubStream, message *hubv1.DispatchResponse) verdict {
	switch message := message.GetMessage().(type) {
	case *hubv1.DispatchResponse_Event:
		return m.event(candidate, s, message.Event)
	case *hubv1.DispatchResponse_Finished:
		s.finished = true
		return m.finish(message.Finished)
	case *hubv1.DispatchResponse_Failed:
		s.finished = true
		v := declined(message.Failed, m.result.Committed != 0)
		if v.refusedByEngine() {
			refused := m.servedBy(candidate)
			m.refused = &refused
		}
		return v
	}
	return verdict{} // a kind of message that a newer hub may send
}

// event handles one event of the answer. The first event with content commits.
func (m *modelAttempt) event(candidate *routerv1.Candidate, s *hubStream, e *hubv1.DispatchEvent) verdict {
	stream := m.req.Answer.Stream
	unfit := stream && !m.out.fits(e)
	if m.result.Committed == 0 {
		if !unfit && stream && !e.GetFirstContent() {
			if m.out.keep(e) {
				return verdict{}
			}
			unfit = true
		}
		if unfit || !m.out.accept(e.GetJson()) {
			return failed(false)
		}
		if v := m.ensureHeld(); v.final() {
			return v
		}
		at := m.runner.Clock.Now() // before the hub hears of the commit and sends more, which may be before commit returns
		if err := s.commit(); err != nil {
			return m.uncommitted(s, err)
		}
		crash.At("gateway.committed")
		m.committed(candidate, at)
		if took := time.Duration(e.GetProviderUs()) * time.Microsecond; stream && took > 0 {
			m.result.Added = max(time.Nanosecond, m.result.FirstContent-took)
		}
	} else if unfit || !m.out.accept(e.GetJson()) {
		return failed(true)
	}
	m.result.Tokens = e.GetCompletionTokens()
	if stream {
		m.out.pass(e)
	}
	return verdict{}
}

// uncommitted finds out why a commit could not be sent. The hub cannot have heard it, so another candidate
// may be tried.
func (m *modelAttempt) uncommitted(s *hubStream, err error) verdict {
	switch {
	case s.expired():
		return silent()
	case errors.Is(err, errOver) || m.client.Err() != nil:
		return m.cut()
	}
	s.cancel()
	return broken(s.drain(), false)
}

// committed notes that the attempt is committed, and begins the client's answer. The first content came at a time that
// was read before the hub was told.
func (m *modelAttempt) committed(candidate *routerv1.Candidate, at time.Time) {
	m.result.Committed = m.attemptNumber()
	m.result.Served = candidate
	m.lease.Committed(m.result.Committed, candidate.GetHubId(), candidate.GetProviderId())
	m.result.FirstContent, m.contentAt = at.Sub(m.receivedAt), at
	m.dropBody()
	m.out.sink.Commit(m.servedBy(candidate))
}

// dropBody drops the body, because no other candidate will get it and a stream may be open for minutes.
func (m *modelAttempt) dropBody() { m.sent, m.of.Sent = openaiapi.Sent{}, openaiapi.Sent{} }

// servedBy describes a candidate to the client.
func (m *modelAttempt) servedBy(candidate *routerv1.Candidate) Served {
	return Served{
		Candidate: candidate, Fallback: m.result.Route.GetFallbackReason(), Attempts: m.attempts(),
		FirstContent: m.result.FirstContent,
	}
}

// attempts returns the number of attempts that the client sees.
func (m *modelAttempt) attempts() int { return max(len(m.result.Attempts), int(m.result.Committed)) }

// ensureHeld returns a verdict when nobody would pay for what is relayed now, because the request's hold was
// released while this process stood still.
func (m *modelAttempt) ensureHeld() verdict {
	switch held := m.lease.EnsureHeld(m.ctx); {
	case held:
		return verdict{}
	case m.ctx.Err() != nil:
		return m.cut()
	}
	m.result.Lapsed, m.result.Usage = true, nil
	m.forgetGathered()
	return verdict{err: lapsed(), result: resultUnavailable, reached: true}
}

// forgetGathered drops the gathered events that are not written. The sink drops them when the request fails.
func (m *modelAttempt) forgetGathered() {
	m.out.drop()
	m.result.Tokens = m.tokensFlushed
}

// flush writes the gathered events, if they are paid for.
func (m *modelAttempt) flush() verdict {
	if m.out.gathered == 0 {
		return verdict{}
	}
	if v := m.ensureHeld(); v.final() {
		return v
	}
	if m.write(m.out.sink.Flush) != nil {
		return m.unwritten()
	}
	m.relayed()
	return verdict{}
}

// write writes to the client, and counts the time that the client takes to read.
func (m *modelAttempt) write(do func() error) error {
	began := m.runner.Clock.Now()
	defer func() { m.reading += m.runner.Clock.Now().Sub(began) }()
	return do()
}

// unwritten returns the verdict when the client cannot be written to.
func (m *modelAttempt) unwritten() verdict {
	m.out.failed = true
	m.out.written()
	return m.cut()
}

// relayed notes that all gathered events have been written.
func (m *modelAttempt) relayed() {
	crash.At("gateway.relaying")
	m.out.written()
	m.tokensFlushed = m.result.Tokens
	m.lease.Relayed(m.result.Tokens, m.out.bytes)
}

// finish ends an answer that was served whole.
func (m *modelAttempt) finish(billed *hubv1.DispatchFinished) verdict {
	if m.result.Committed == 0 {
		return failed(false)
	}
	crash.At("gateway.finished")
	if v := m.ensureHeld(); v.final() {
		return v
	}
	m.result.Usage = billed
	cost := charge(m.grant.Terms, billed).String()
	usage := rewrite.Usage{Prompt: billed.GetBillablePromptTokens(), Completion: billed.GetBillableCompletionTokens()}
	if m.answer.ShowCost {
		usage.Cost = cost
	}
	if m.req.Answer.Stream {
		m.out.end(usage)
		if m.write(func() error { return m.out.sink.Whole(Whole{}) }) != nil {
			return m.unwritten()
		}
		m.relayed()
		return served()
	}
	latency := m.since()
	whole := m.out.whole(usage)
	whole.Cost, whole.Latency = cost, latency
	if m.out.sink.Whole(whole) != nil {
		return m.unwritten()
	}
	m.lease.Relayed(m.result.Tokens, m.out.bytes)
	return served()
}

// cut returns the verdict of an attempt that this side ends: the client cannot be written to, or the time is
// over.
func (m *modelAttempt) cut() verdict {
	v := verdict{err: ended(m.client), result: resultTimeout, reached: true}
	switch why := whyOver(m.client); {
	case why == stopped:
		v.result = resultUnavailable
	case m.out.failed || why == clientLeft:
		v.err, v.result = clientGone(), resultClientGone
	}
	return v
}
