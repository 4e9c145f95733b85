package httpapi

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admit"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/relay"
)

// patchRoom is what patching may add to a body: a longer model name and the
// option that asks for usage.
const patchRoom = 512

// chat serves POST /v1/chat/completions. The order of its steps is the public
// order of errors: 413, 401, 400, 404, 403, then what admission says.
func (h *Handler) chat(x *exchange) error {
	if err := h.checkDeclared(x.request); err != nil {
		return err
	}
	who, err := h.Auth.Authenticate(x.request.Context(), x.request.Header)
	if err != nil {
		return h.overrules(x, err)
	}
	pin, err := admit.ParsePin(x.request.Header)
	if err != nil {
		if len(x.request.Header.Values(admit.ProviderHeader)) > 0 {
			x.header().Set("X-Svc-Route-Mode", "explicit")
		}
		return h.overrules(x, err)
	}
	setRoute(x.header(), pin)
	if err := checkForm(x.request.Header); err != nil {
		return h.overrules(x, err)
	}
	sent := h.buffers.get()
	defer h.buffers.put(sent)
	call, err := h.prepare(x, who, pin, sent)
	if err != nil {
		return err
	}
	return h.run(x, call)
}

// prepare reads and checks the body, and leaves in sent what goes to the
// provider. The body itself is not kept for the length of the answer.
func (h *Handler) prepare(x *exchange, who *auth.Principal, pin admit.Pin, sent *bytes.Buffer) (*relay.Call, error) {
	raw := h.buffers.get()
	defer h.buffers.put(raw)
	if err := h.readBody(x, raw); err != nil {
		return nil, err
	}
	req, err := openaiapi.Parse(raw.Bytes())
	if err != nil {
		return nil, err
	}
	model, bounds, err := h.resolve(who, req)
	if err != nil {
		return nil, err
	}
	x.model, x.stream = model.ID, req.Stream
	x.facts = append(x.facts, slog.String("model", model.ID), slog.Bool("stream", req.Stream))
	sent.Grow(raw.Len() + patchRoom)
	body, span := req.Body(sent.AvailableBuffer(), model.ID)
	if int64(len(body)) > h.cfg.MaxBody {
		return nil, tooLarge(h.cfg.MaxBody) // a hub takes no more either
	}
	return &relay.Call{
		RequestID:    x.id,
		ReceivedAt:   x.started,
		Stream:       req.Stream,
		IncludeUsage: req.IncludeUsage,
		IncludeCost:  req.IncludeCost,
		Choices:      int32(req.Choices),
		Body:         body,
		ModelOffset:  uint32(span.Start),
		ModelLength:  uint32(span.Len()),
		Order: admit.Order{
			RequestID:         x.id,
			KeyID:             who.KeyID,
			ModelID:           model.ID,
			PromptTokens:      req.PromptTokens,
			ExplicitMaxTokens: req.MaxTokens,
			Bounds:            bounds,
			BodyBytes:         int64(len(body)),
			Capabilities:      capabilities(req),
			Pin:               pin,
		},
	}, nil
}

// resolve finds the model and checks that the key may use it so.
func (h *Handler) resolve(who *auth.Principal, req *openaiapi.Request) (*catalog.Model, admit.Bounds, error) {
	model, err := h.Catalog.Find(req.Model)
	if err != nil {
		return nil, admit.Bounds{}, err
	}
	if !model.Chat {
		return nil, admit.Bounds{}, fault.New(fault.Invalid, apierror.UnsupportedEndpointForModel,
			"This model does not answer chat completions.").On("model")
	}
	bounds, err := admit.BoundsOf(req, model)
	if err != nil {
		return nil, admit.Bounds{}, err
	}
	if !who.MayUse(model.ID) {
		return nil, admit.Bounds{}, fault.New(fault.Denied, fault.ModelNotAllowed, "This key may not use this model.").On("model")
	}
	return model, bounds, nil
}

// capabilities is what the provider must have declared.
func capabilities(req *openaiapi.Request) []string {
	need := []string{"chat"}
	if req.Stream {
		need = append(need, "stream")
	}
	if req.Logprobs {
		need = append(need, "logprobs")
	}
	return need
}

// run admits the call, serves it, and reports what became of it.
func (h *Handler) run(x *exchange, call *relay.Call) error {
	ctx := x.request.Context()
	grant, err := h.Gate.Enter(ctx, call.Order)
	setLimits(x.header(), grant.Terms.GetRequests())
	if err != nil {
		setLimits(x.header(), reachedLimit(err))
		if grant.Held {
			h.report(x, call, relay.Result{Err: err, Route: relay.RouteOf(call.Order.Pin)})
		}
		return err
	}
	crash.At("gateway.admitted")
	call.Grant = grant
	h.Leases.Last(time.Duration(grant.Terms.GetLeaseMs()) * time.Millisecond)
	call.Running = h.Leases.Begin(x.id, x.started)
	defer h.Leases.End(call.Running)
	call.Again = func(ctx context.Context, failed []string) ([]*routerv1.Candidate, error) {
		return h.Gate.Again(ctx, call.Order, failed)
	}
	h.Metrics.open.Add(ctx, 1)
	defer h.Metrics.open.Add(context.WithoutCancel(ctx), -1)
	result := h.Engine.Serve(x.answer, x.request, call)
	h.Metrics.completion(ctx, &result)
	crash.At("gateway.answered")
	h.report(x, call, result)
	return result.Err
}

// report notes the facts of a call for the log and gives billing-ledger the
// gateway's own account of it.
func (h *Handler) report(x *exchange, call *relay.Call, r relay.Result) {
	w := &billingv1.Witness{
		RequestId:        x.id,
		Outcome:          billingv1.Outcome_OUTCOME_COMPLETED,
		CommittedAttempt: r.Committed,
		RelayedTokens:    r.Tokens,
		RelayedBytes:     r.Bytes,
		HttpStatus:       http.StatusOK,
		Route:            r.Route,
		Stream:           call.Stream,
		Attempts:         r.Attempts,
		ReceivedAt:       timestamppb.New(x.started),
		FirstContentMs:   r.FirstContent.Milliseconds(),
		TotalMs:          h.Clock.Now().Sub(x.started).Milliseconds(),
	}
	if r.Usage != nil {
		w.Metered = &billingv1.Metered{
			PromptTokens: r.Usage.GetBillablePromptTokens(), CompletionTokens: r.Usage.GetBillableCompletionTokens(),
		}
	}
	if r.Err != nil {
		a := apierror.Of(r.Err)
		w.Outcome, w.ErrorCode = outcome(a), a.KnownCode()
		if !r.Begun || a.Status == apierror.StatusClientClosed {
			w.HttpStatus = int32(a.Status)
		}
	}
	h.Witness.Add(w)
	x.result = r
	x.facts = append(x.facts,
		slog.Int("attempts", len(r.Attempts)),
		slog.Int64("first_content_ms", w.GetFirstContentMs()),
		slog.Int64("completion_tokens", r.Tokens))
	if r.Served != nil {
		x.facts = append(x.facts, slog.String("provider", r.Served.GetProviderId()))
	}
	if r.Usage != nil {
		x.facts = append(x.facts, slog.Int64("billed_prompt_tokens", r.Usage.GetBillablePromptTokens()),
			slog.Int64("billed_completion_tokens", r.Usage.GetBillableCompletionTokens()))
	}
}

func outcome(a apierror.Answer) billingv1.Outcome {
	switch {
	case a.Status == apierror.StatusClientClosed:
		return billingv1.Outcome_OUTCOME_CLIENT_GONE
	case a.Status == http.StatusGatewayTimeout:
		return billingv1.Outcome_OUTCOME_TIMEOUT
	case a.Status < http.StatusInternalServerError:
		return billingv1.Outcome_OUTCOME_REFUSED
	}
	return billingv1.Outcome_OUTCOME_FAILED
}

// setRoute says how the request was asked to be routed.
func setRoute(h http.Header, pin admit.Pin) {
	if pin.ProviderID == "" {
		h.Set("X-Svc-Route-Mode", "auto")
		return
	}
	h.Set("X-Svc-Route-Mode", "explicit")
	h.Set("X-Svc-Requested-Provider", pin.ProviderID)
}

// setLimits says how much of the key's rate is left.
func setLimits(h http.Header, requests *billingv1.RateLimit) {
	if requests.GetLimit() <= 0 {
		return
	}
	h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(int(requests.GetLimit())))
	h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(max(requests.GetRemaining(), 0))))
	h.Set("X-Ratelimit-Reset-Requests", (time.Duration(max(requests.GetResetMs(), 0)) * time.Millisecond).String())
}

// reachedLimit is the limit that a refusal speaks of, with nothing left; nil
// when it speaks of none.
func reachedLimit(err error) *billingv1.RateLimit {
	f, ok := fault.As(err)
	if !ok || f.Reason != fault.RateLimitExceeded {
		return nil
	}
	limit, err := strconv.ParseInt(f.Meta["limit"], 10, 32)
	if err != nil {
		return nil
	}
	reset, err := strconv.ParseInt(f.Meta["reset_ms"], 10, 64)
	if err != nil {
		reset = f.RetryAfter.Milliseconds()
	}
	return &billingv1.RateLimit{Limit: int32(limit), ResetMs: reset}
}
