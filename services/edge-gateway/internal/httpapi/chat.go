package httpapi

import (
	"bytes"
	"log/slog"

	"svc.internal/pkg/fault"

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
