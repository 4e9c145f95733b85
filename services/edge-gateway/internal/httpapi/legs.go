package httpapi

import (
	"context"
	"log/slog"
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/telemetry"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/admit"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/relay"
)

// A request with models: [] runs in legs, one for each model that is tried. A
// leg is a request of its own to all that stands behind the gateway: it has an
// id, a hold of what its own model costs, and a receipt, which names the leg
// that went on. At most one of them is committed, so at most one is billed. A
// leg is concluded before the next is admitted, so that their holds and places
// never stand beside each other.

// maxNextModels is how many models are tried after the first.
const maxNextModels = 3

// choice is a model that may serve a request.
type choice struct {
	model  *catalog.Model
	bounds admit.Bounds
}

// resolve finds the models that may serve a request, in the order in which they
// are tried. Each must exist, serve this endpoint and be allowed. Those that
// nobody serves now are left out, unless there is no other behind.
func (h *Handler) resolve(as asJSON, who *auth.Principal, req *openaiapi.Request) ([]choice, error) {
	first, err := h.resolveOne(as, who, req, req.Model)
	if err != nil {
		return nil, err
	}
	all := []choice{first}
	for i, name := range req.Models {
		c, err := h.resolveOne(as, who, req, name)
		if err != nil {
			return nil, onModel(err, openaiapi.ModelParam(i))
		}
		if !slices.ContainsFunc(all, func(other choice) bool { return other.model == c.model }) {
			all = append(all, c)
		}
	}
	reached := all[:0]
	for i, c := range all {
		if c.model.Online || i == len(all)-1 {
			reached = append(reached, c)
		}
	}
	return reached[:min(len(reached), 1+maxNextModels)], nil
}

// resolveOne finds a model and checks that the key may use it so.
func (h *Handler) resolveOne(as asJSON, who *auth.Principal, req *openaiapi.Request, name string) (choice, error) {
	model, err := h.findModel(name, as.endpoint)
	if err != nil {
		return choice{}, err
	}
	bounds, err := admit.BoundsOf(req, model)
	if err != nil {
		return choice{}, err
	}
	return choice{model, bounds}, mayUse(who, model)
}

// onModel lets an error that blames the model name the entry where it stands.
func onModel(err error, param string) error {
	if f, ok := fault.As(err); ok && f.Param == "model" {
		return f.On(param)
	}
	return err
}

// mendable are the errors of a leg that another model may not have.
var mendable = []fault.Reason{
	fault.NoProviderOnline, fault.ProvidersBusy, fault.RequestedProviderUnavailable,
	apierror.RequestedProviderFailed, apierror.UpstreamError, fault.DeadlineExceeded,
}

// next makes the call of the leg after one that failed before any content, or
// nil when the request ends here.
func (h *Handler) next(x *exchange, failed *relay.Call, err error) *relay.Call {
	f, ok := fault.As(err)
	if !ok || !slices.Contains(mendable, f.Reason) || len(x.choices) == 0 || x.request.Context().Err() != nil ||
		h.Engine.Left(failed) <= 0 {
		return nil
	}
	now := h.Clock.Now()
	id, err := ids.NewRequest(now, h.Random)
	if err != nil {
		return nil // the leg's own error says more
	}
	c := x.choices[0]
	x.choices = x.choices[1:]
	setDeprecation(x.header(), c.model.DeprecatedAt)
	call := *failed
	call.RequestID, call.Order.RequestID = id.String(), id.String()
	call.BeganAt, call.Running = now, nil
	call.Order.ModelID, call.Order.Bounds = c.model.ID, c.bounds
	name := jsonscan.AppendString(nil, c.model.ID)
	behind := call.Body[call.ModelOffset+call.ModelLength:]
	call.Body = slices.Concat(call.Body[:call.ModelOffset], name, behind)
	call.ModelLength = uint32(len(name))
	call.Order.BodyBytes = int64(len(call.Body))
	if call.Order.BodyBytes > h.cfg.MaxBody {
		return nil // a hub takes no more
	}
	return &call
}

// goOn makes the exchange that of its next leg.
func (x *exchange) goOn(call *relay.Call) {
	x.facts = append(x.facts, slog.String("continues", x.id))
	x.id, x.model = call.RequestID, call.Order.ModelID
	x.request = x.request.WithContext(telemetry.WithRequestID(x.request.Context(), x.id))
	x.nameRequest()
}

// nameRequest tells the client which request this is; once headers are sent, it
// is the receipt of the first leg that leads to the last.
func (x *exchange) nameRequest() {
	x.header().Set("X-Svc-Request-Id", x.id)
	x.header().Set("X-Request-Id", x.id)
}

// settle gives billing-ledger the account of a leg that goes on, now: the next
// must find the hold released. An account that is not taken is sent later.
func (h *Handler) settle(ctx context.Context, w *billingv1.Witness) {
	if err := h.Witness.Send(context.WithoutCancel(ctx), []*billingv1.Witness{w}); err != nil {
		h.Log.DebugContext(ctx, "a leg's account is sent later", "error", err)
		h.Witness.Add(w)
	}
}
