package inference

import (
	"context"
	"slices"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/telemetry"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
)

// A request with models: [] runs in model attempts, one for each model that is tried. A model attempt is a
// request of its own for every service behind the gateway: it has an id, a hold of what its own model costs,
// a unit of the key's rate, and a receipt, which names the next model attempt. All share the request's whole
// time. At most one of them is committed, so at most one is billed. A model attempt is reported before the
// next is admitted, so that no two of their holds and places stand at once.

// Run serves a request and returns the outcome of its last model attempt. The error of a stream that has
// begun has been sent. The caller answers with any other error.
func (r *Runner) Run(ctx context.Context, req *Request, to Client) Result {
	for m := r.newModelAttempt(ctx, req, &req.Prompt, to); ; {
		next := m.try(to)
		if next == nil {
			return m.result
		}
		to.Advance(next.id, req.Models[next.at].Model)
		m = next
	}
}

// try runs the request on one model. It returns the attempt on the next model, or nil when the request ends
// here.
func (m *modelAttempt) try(to Client) (next *modelAttempt) {
	defer m.close()
	err := m.admit(to)
	if err == nil {
		err = m.serve()
	}
	return m.conclude(err)
}

// serve tries candidates until one has served, or none may be tried any more.
func (m *modelAttempt) serve() error {
	m.start()
	defer m.stop()
	for {
		candidate, err := m.candidate()
		if err != nil {
			return err
		}
		if v := m.attempt(candidate); !v.retry {
			return v.err // nil when it has served
		}
	}
}

// conclude reports a model attempt. Its hold must be released before the next model is admitted.
func (m *modelAttempt) conclude(err error) (next *modelAttempt) {
	m.note(err)
	if next = m.successor(); next == nil {
		m.fail()
	}
	m.result.Bytes = m.out.bytes
	if m.lease != nil {
		m.count()
		crash.At("gateway.answered")
	}
	if !m.result.Held {
		return next
	}
	if next != nil {
		if m.reportNow(next.id) {
			return next
		}
		m.fail() // it does not go on: its own error is the answer
	}
	m.reportLater("")
	return nil
}

// newModelAttempt is one of the prompts of a request on its first model. onModel makes that
// of another model from it.
func (r *Runner) newModelAttempt(ctx context.Context, req *Request, p *Prompt, to Sink) *modelAttempt {
	m := &modelAttempt{
		runner: r, req: req, client: ctx, id: p.ID, of: p, sent: p.Sent, answer: req.Answer,
		budget: budget{clock: r.Clock, cfg: &r.cfg, receivedAt: req.ReceivedAt, beganAt: req.ReceivedAt},
		asks: admission.Request{
			ID:                p.ID,
			KeyID:             req.KeyID,
			ModelID:           req.Models[0].ID,
			AccountTag:        req.AccountTag,
			Priority:          req.Priority,
			WindowTokens:      p.WindowTokens,
			PromptParam:       req.PromptParam,
			ExplicitMaxTokens: req.MaxTokens,
			MaxTokensParam:    req.MaxTokensParam,
			Bounds:            p.Bounds,
			BodyBytes:         int64(len(p.Sent.Body)),
			Capabilities:      req.Capabilities,
			Pin:               req.Pin,
			Prefer:            req.Prefer,
			Claimed:           req.Claim != nil,
		},
		out:    output{sink: to, stream: req.Answer.Stream},
		result: Result{Route: routeOf(req.Pin)},
	}
	m.answer.RequestID, m.answer.Model = m.id, m.asks.ModelID
	return m
}

// admit asks for leave to run on the model. It confirms the claim of an Idempotency-Key right before, because
// an admitted request is billed.
func (m *modelAttempt) admit(to Client) error {
	m.admittedAt = m.runner.Clock.Now()
	if m.req.Claim != nil {
		if err := m.req.Claim.EnsureHeld(m.client); err != nil {
			return err
		}
	}
	var err error
	m.grant, err = m.runner.Admission.Admit(m.client, &m.asks)
	if terms := m.grant.Terms; terms != nil {
		to.Admitted(terms.GetRequests(), terms.GetBillingType())
	}
	if err != nil {
		err = m.unserved(err)
		to.Refused(err)
		return err
	}
	crash.At("gateway.admitted")
	m.holdLease()
	m.runner.Metrics.open.Add(m.client, 1)
	return nil
}

// holdLease keeps the hold until the model attempt is closed.
func (m *modelAttempt) holdLease() {
	lease := time.Duration(m.grant.Terms.GetLeaseMs()) * time.Millisecond
	m.runner.Leases.SetLeaseDuration(lease)
	m.lease = m.runner.Leases.Begin(m.id, m.grant.Terms.GetTicket(), m.admittedAt, lease)
}

// close ends what admit began.
func (m *modelAttempt) close() {
	if m.lease == nil {
		return
	}
	m.runner.Metrics.open.Add(context.WithoutCancel(m.client), -1)
	m.runner.Leases.End(m.lease)
}

// start begins the time of the request, and the keep-alives of a stream.
func (m *modelAttempt) start() {
	cfg := &m.runner.cfg
	m.ctx, m.cancel = context.WithTimeout(m.client, m.left()+cfg.HubGrace)
	m.candidates, m.passed = m.grant.Candidates, m.grant.PassedOver
	if m.req.Answer.Stream {
		m.alive = startKeepAlive(m.out.sink, m.lease, &m.out.flow, cfg.HoldHeaders-m.since(), cfg.KeepAlive)
	}
}

// stop ends the time and the keep-alives.
func (m *modelAttempt) stop() {
	m.over = m.ctx.Err() != nil || m.out.failed
	if m.alive != nil {
		m.alive.stop()
	}
	m.cancel()
}

// candidate returns the candidate to try now. Its error is the outcome of the model attempt.
func (m *modelAttempt) candidate() (*routerv1.Candidate, error) {
	if m.ctx.Err() != nil {
		return nil, ended(m.client)
	}
	attempts := len(m.failures)
	if attempts == m.maxAttempts() || attempts > 0 && m.firstContentLeft() <= 0 {
		return nil, m.exhausted()
	}
	if len(m.candidates) == 0 {
		if m.pinned() {
			return nil, m.exhausted()
		}
		more, passed, err := m.runner.Admission.Reselect(m.ctx, &m.asks, m.tried)
		if m.ctx.Err() != nil {
			return nil, ended(m.client)
		}
		if err != nil || len(more) == 0 {
			return nil, m.exhausted() // what failed before says more than this
		}
		m.candidates, m.passed = more, passed
	}
	candidate := m.candidates[0]
	m.candidates = m.candidates[1:]
	return candidate, nil
}

// maxAttempts returns how many candidates are tried.
func (m *modelAttempt) maxAttempts() int {
	if m.grant.SingleAttempt {
		return 1
	}
	return m.runner.cfg.MaxAttempts
}

// pinned reports whether only the pinned provider may serve.
func (m *modelAttempt) pinned() bool {
	return m.req.Pin.ProviderID != "" && !m.req.Pin.AllowFallbacks
}

// exhausted returns the outcome when every attempt has failed.
func (m *modelAttempt) exhausted() error {
	return exhausted(m.failures, m.pinned(), m.req.Answer.Stream && m.firstContentLeft() <= 0)
}

// unservedFor is how long a model must have been without a provider before SDKs are asked not to try again by
// themselves.
const unservedFor = time.Minute

// unserved marks no_provider_online as not worth a retry soon, once the model has been without a provider for
// unservedFor.
func (m *modelAttempt) unserved(err error) error {
	f, ok := fault.As(err)
	if !ok || f.Reason != fault.NoProviderOnline {
		return err
	}
	model, lookup := m.runner.Models.Find(m.asks.ModelID)
	if lookup != nil || model.OfflineSince.IsZero() || m.runner.Clock.Now().Sub(model.OfflineSince) < unservedFor {
		return err
	}
	return apierror.NotSoon(f)
}

// note keeps the outcome of a model attempt, with the reason why the request fell back on a provider.
func (m *modelAttempt) note(err error) {
	m.result.Held = m.grant.Held
	m.result.Err = apierror.AfterFallback(err, FallbackName(m.result.Route.GetFallbackReason()))
}

// count records the outcome of a request that was admitted.
func (m *modelAttempt) count() {
	metrics, result := m.runner.Metrics, &m.result
	if result.FirstContent > 0 {
		metrics.firstContent.Record(m.client, result.FirstContent.Seconds())
	}
	if result.Added > 0 {
		metrics.added.Record(m.client, result.Added.Seconds())
	}
	if m.req.Endpoint == hubv1.Endpoint_ENDPOINT_CHAT {
		metrics.tokens.Add(m.client, result.Tokens) // of others it counts something else
		m.runner.Shapes.Count(m.req.Shape)
	}
	for _, attempt := range result.Attempts {
		metrics.attempt(m.client, attempt.GetResult())
	}
}

// fail gives the client the error of a model attempt that ends here. A stream that has begun first gets the
// events that waited, if they are surely paid for, because there is no time to ask.
func (m *modelAttempt) fail() {
	err := m.result.Err
	if err == nil {
		return
	}
	unpaid := !m.lease.Valid()
	gone := apierror.Of(err).Status == apierror.StatusClientClosed
	if m.req.Answer.Stream && m.out.sink.Begun() && !gone {
		switch {
		case unpaid:
			m.forgetGathered()
		default:
			m.out.cut()
		}
	}
	m.out.sink.Fail(Failure{Err: err, RequestID: m.id, Attempts: m.attempts(), Refused: m.refused, Unpaid: unpaid})
}

// mendable are the errors of a model attempt that another model may not have.
var mendable = []fault.Reason{
	fault.NoProviderOnline, fault.ProvidersBusy, fault.RequestedProviderUnavailable,
	apierror.RequestedProviderFailed, apierror.UpstreamError, fault.DeadlineExceeded,
}

// successor returns the attempt on the next model after a failure before any content, or nil when the request
// ends here.
func (m *modelAttempt) successor() *modelAttempt {
	f, ok := fault.As(m.result.Err)
	if !ok || !slices.Contains(mendable, f.Reason) || m.result.Committed != 0 || m.over || m.grant.SingleAttempt ||
		m.client.Err() != nil || m.left() <= 0 {
		return nil
	}
	for at := m.at + 1; at < len(m.req.Models); at++ {
		model := &m.req.Models[at]
		p := m.req.Prompt
		p.Bounds = model.Bounds
		p.Sent = m.sent.For(jsonscan.AppendString(nil, model.ID), model.Bounds.MaxOutputTokens)
		if int64(len(p.Sent.Body)) > m.runner.cfg.MaxBody {
			continue // a hub takes no more
		}
		return m.onModel(at, p)
	}
	return nil
}

// onModel returns the attempt on another model. It returns nil when no id can be made, because the error of
// the last model attempt then says more.
func (m *modelAttempt) onModel(at int, p Prompt) *modelAttempt {
	now := m.runner.Clock.Now()
	id, err := ids.NewRequest(now, m.runner.Random)
	if err != nil {
		return nil
	}
	p.ID = id.String()
	next := m.runner.newModelAttempt(telemetry.WithRequestID(m.client, p.ID), m.req, &p, m.out.sink)
	next.at, next.of, next.beganAt = at, m.of, now
	next.asks.ModelID, next.answer.Model = m.req.Models[at].ID, m.req.Models[at].ID
	return next
}
