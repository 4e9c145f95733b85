package httpapi

import (
	"context"
	"slices"
	"strconv"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/jsonscan"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/inference"
)

// A request with models: [] runs in legs, one for each model that is tried. A
// leg is a request of its own to all that stands behind the gateway: it has an
// id, a hold of what its own model costs, and a receipt, which names the leg
// that went on. At most one of them is committed, so at most one is billed. A
// leg is concluded before the next is admitted, so that their holds and places
// never stand beside each other.

// mendable are the errors of a leg that another model may not have.
var mendable = []fault.Reason{
	fault.NoProviderOnline, fault.ProvidersBusy, fault.RequestedProviderUnavailable,
	apierror.RequestedProviderFailed, apierror.UpstreamError, fault.DeadlineExceeded,
}

// next makes the call of the leg after one that failed before any content, or
// nil when the request ends here.
func (h *Handler) next(x *exchange, failed *inference.Call, err error) *inference.Call {
	f, ok := fault.As(err)
	if !ok || !slices.Contains(mendable, f.Reason) || failed.Grant.SingleAttempt || x.request.Context().Err() != nil || h.Engine.Left(failed) <= 0 {
		return nil
	}
	for len(x.choices) > 0 {
		c := x.choices[0]
		x.choices = x.choices[1:]
		name := jsonscan.AppendString(nil, c.model.ID)
		sent := failed.Sent.For(name, c.bounds.MaxOutputTokens)
		size := int64(len(sent.Body))
		if size > h.cfg.MaxBody {
			continue // a hub takes no more
		}
		call := *failed
		call.Order.ModelID, call.Order.Bounds, call.Order.BodyBytes, call.Sent = c.model.ID, c.bounds, size, sent
		call.HiddenReasoning = c.model.HiddenReasoning
		return h.begin(x, &call, c.model)
	}
	return nil
}

// begin makes a call a leg of its own; nil when it can have no id, since then the
// error of the leg before says more.
func (h *Handler) begin(x *exchange, call *inference.Call, model *catalog.Model) *inference.Call {
	now := h.Clock.Now()
	id, err := ids.NewRequest(now, h.Random)
	if err != nil {
		return nil
	}
	setDeprecation(x.Header(), model.DeprecatedAt)
	call.RequestID, call.Order.ID = id.String(), id.String()
	call.BeganAt, call.Running = now, nil
	return call
}

// settle gives billing-ledger the account of a leg, now, and reports whether the
// next goes on: it must find the hold released. An account that is not taken is
// sent later; then a leg under a claim does not go on, since billing-ledger
// decides by what it knows of the legs whether a request that is sent again has
// been billed.
func (h *Handler) settle(x *exchange, w *billingv1.RequestReport, next *inference.Call) bool {
	ctx := context.WithoutCancel(x.request.Context())
	w.ContinuedAs = next.RequestID
	err := h.Witness.Send(ctx, []*billingv1.RequestReport{w})
	switch {
	case err == nil:
		return true
	case x.claim != nil:
		h.Log.DebugContext(ctx, "a leg does not go on, since its account was not taken", "error", err)
		return false
	}
	h.Log.DebugContext(ctx, "a leg's account is sent later", "error", err)
	h.Witness.Add(w)
	return true
}

// stay lets a leg that was to go on be the last: its own error is the answer.
func (h *Handler) stay(x *exchange, call *inference.Call, r inference.Result) {
	if model, err := h.Catalog.Find(call.Order.ModelID); err == nil {
		setDeprecation(x.Header(), model.DeprecatedAt)
	}
	if r.Begun {
		h.Engine.Tell(x, call, r.Err)
	} else if n := len(r.Attempts); n > 0 {
		x.Header().Set("X-Svc-Attempts", strconv.Itoa(n))
	}
}
