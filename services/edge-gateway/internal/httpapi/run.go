package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/inference"
)

// run serves the call, in as many legs as it takes.
func (h *Handler) run(x *exchange, call *inference.Call) error {
	for {
		next, err := h.leg(x, call)
		if next == nil {
			return err
		}
		x.advance(next.RequestID, next.Order.ModelID)
		call = next
	}
}

// leg admits the call, serves it, and reports what became of it. It returns the
// call that goes on, if any.
func (h *Handler) leg(x *exchange, call *inference.Call) (next *inference.Call, err error) {
	ctx, began := x.request.Context(), h.Clock.Now()
	if err := sure(ctx, x); err != nil {
		if x.Begun() {
			h.Engine.Tell(x, call, err)
		}
		return nil, err
	}
	grant, err := h.Gate.Admit(ctx, &call.Order)
	if grant.Terms != nil {
		x.setRate(grant.Terms.GetRequests())
	}
	inference.SetBillingType(x.Header(), grant.Terms.GetBillingType())
	if err != nil {
		err = h.unserved(call.Order.ModelID, err)
		if left := leftBy(err); left != nil {
			x.setRate(left)
		}
		next = h.next(x, call, err)
		if next == nil && x.Begun() {
			h.Engine.Tell(x, call, err)
		}
		if grant.Held {
			next = h.report(x, call, next, inference.Result{Err: err, Route: inference.RouteOf(call.Order.Pin), Begun: x.Begun()})
		}
		return next, err
	}
	crash.At("gateway.admitted")
	call.Grant, call.Begun = grant, x.Begun()
	lease := time.Duration(grant.Terms.GetLeaseMs()) * time.Millisecond
	h.Leases.SetLeaseDuration(lease)
	call.Running = h.Leases.Begin(call.RequestID, began, lease)
	defer h.Leases.End(call.Running)
	call.Again = func(ctx context.Context, failed []string) ([]*routerv1.Candidate, error) {
		return h.Gate.Reselect(ctx, &call.Order, failed)
	}
	call.GoesOn = func(err error) bool {
		next = h.next(x, call, err)
		return next != nil
	}
	h.Metrics.open.Add(ctx, 1)
	defer h.Metrics.open.Add(context.WithoutCancel(ctx), -1)
	result := h.Engine.Serve(x, x.request, call)
	h.Metrics.completion(ctx, call.Endpoint, &result)
	crash.At("gateway.answered")
	return h.report(x, call, next, result), result.Err
}

// unservedFor is how long nobody must have served a model before SDKs are told not
// to ask again by themselves.
const unservedFor = time.Minute

// unserved tells clients not to wait for a provider where none has been for a while.
func (h *Handler) unserved(modelID string, err error) error {
	f, ok := fault.As(err)
	if !ok || f.Reason != fault.NoProviderOnline {
		return err
	}
	model, lookup := h.Catalog.Find(modelID)
	if lookup != nil || model.OfflineSince.IsZero() || h.Clock.Now().Sub(model.OfflineSince) < unservedFor {
		return err
	}
	return apierror.NotSoon(f)
}

// sure is nil while nobody else can have the claim of a request that has one. It
// stands right before admission, since what is admitted is billed.
func sure(ctx context.Context, x *exchange) error {
	if x.claim == nil {
		return nil
	}
	return x.claim.Sure(ctx)
}

// report notes the facts of a call for the log and gives billing-ledger the
// gateway's own account of it, at once when a next leg is to go on. It returns
// the leg that does.
func (h *Handler) report(x *exchange, call, next *inference.Call, r inference.Result) *inference.Call {
	w := h.account(x, call, r)
	if next != nil {
		if h.settle(x, w, next) {
			return next
		}
		h.stay(x, call, r)
		w = h.account(x, call, r)
	}
	h.Witness.Add(w)
	if h.Gate.Contended(call.Order.KeyID) {
		h.Witness.Hurry()
	}
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
	return nil
}

func (h *Handler) account(x *exchange, call *inference.Call, r inference.Result) *billingv1.RequestReport {
	w := &billingv1.RequestReport{
		RequestId:        call.RequestID,
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
	return w
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
