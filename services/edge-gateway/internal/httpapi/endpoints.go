package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/relay"
)

// patchRoom is what patching may add to a body: a longer model name, the
// option that asks for usage, the bound of the answer, and the message around a
// legacy prompt.
const patchRoom = 512

// asJSON is an endpoint whose bodies are JSON.
type asJSON struct {
	kind     openaiapi.Kind
	endpoint hubv1.Endpoint
	// capability is what the provider must have declared for it.
	capability string
	// prompt is the parameter that may be too long.
	prompt string
}

var asChat = asJSON{openaiapi.Chat, hubv1.Endpoint_ENDPOINT_CHAT, "chat", "messages"}

// chat serves POST /v1/chat/completions.
func (h *Handler) chat(x *exchange) error { return h.answerJSON(x, asChat) }

// answerJSON serves one request whose body is JSON. The order of its steps is
// the public order of errors: 413, 401, 400, 404, 403, then what admission says.
func (h *Handler) answerJSON(x *exchange, as asJSON) error {
	who, pin, err := h.enter(x, h.cfg.MaxBody, checkForm)
	if err != nil {
		return err
	}
	sent := h.buffers.get()
	defer h.buffers.put(sent)
	calls, err := h.prepare(x, as, who, pin, sent)
	switch {
	case err != nil:
		return err
	case len(calls) > 1:
		return h.runAll(x, calls)
	}
	return h.run(x, calls[0])
}

// prepare reads and checks the body, and leaves in sent what goes to the
// provider. The body itself is not kept for the length of the answer. There is one
// call for each prompt of a legacy completion, and otherwise one.
func (h *Handler) prepare(x *exchange, as asJSON, who *auth.Principal, pin admission.Pin, sent *bytes.Buffer) ([]*relay.Call, error) {
	raw := h.buffers.get()
	defer h.buffers.put(raw)
	if err := readBody(x, raw, h.cfg.MaxBody); err != nil {
		return nil, err
	}
	req, err := openaiapi.Parse(as.kind, raw.Bytes())
	if err != nil {
		return nil, err
	}
	if req.Messages > h.cfg.MaxMessages {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "messages must have at most %d elements", h.cfg.MaxMessages).On("messages")
	}
	if req.SplitBytes() > h.cfg.MaxBody {
		return nil, tooLarge(h.cfg.MaxBody)
	}
	h.rateOf(x, req.Model)
	pin, prefer := admission.Choose(pin, req.Routing)
	setRoute(x.Header(), pin)
	split := req.Split()
	choices, err := h.resolve(as, who, split[0])
	if err != nil {
		return nil, err
	}
	model, bounds := choices[0].model, choices[0].bounds
	x.choices = choices[1:]
	setDeprecation(x.Header(), model.DeprecatedAt)
	x.model, x.stream = model.ID, req.Stream
	x.facts = append(x.facts, slog.String("model", model.ID), slog.Bool("stream", req.Stream))
	if model.TakesResponseFormat {
		req.AskForBase64()
	}
	sent.Grow(raw.Len() + patchRoom)
	body := split[0].Body(sent.AvailableBuffer(), model.ID, bounds.MaxOutputTokens)
	if int64(len(body.Body)) > h.cfg.MaxBody {
		return nil, tooLarge(h.cfg.MaxBody) // a hub takes no more either
	}
	return h.forEach(split, model, &relay.Call{
		RequestID:  x.id,
		ReceivedAt: x.started,
		Endpoint:   as.endpoint,
		Legacy:     as.kind == openaiapi.Completion,
		Stream:     req.Stream,
		StopAsked:  req.Stop,
		NamesMedia: req.NamesMedia,

		EngineMembers: req.EngineMembers,

		HiddenReasoning: model.HiddenReasoning,
		IncludeUsage:    req.IncludeUsage,
		IncludeCost:     req.IncludeCost,
		Choices:         int32(req.Choices),
		Inputs:          int32(req.Inputs),
		Base64:          req.Base64,
		Sent:            body,
		Order: admission.Request{
			ID:                x.id,
			KeyID:             who.KeyID,
			AccountTag:        who.AccountTag,
			ModelID:           model.ID,
			PromptTokens:      split[0].BillablePrompt(),
			WindowTokens:      split[0].LargestTokens,
			PromptParam:       as.prompt,
			ExplicitMaxTokens: req.MaxTokens,
			MaxTokensParam:    req.MaxTokensParam,
			Bounds:            bounds,
			BodyBytes:         int64(len(body.Body)),
			Capabilities:      capabilities(as, req),
			Pin:               pin,
			Prefer:            prefer,
		},
	})
}

// capabilities is what the provider must have declared.
func capabilities(as asJSON, req *openaiapi.Request) []string {
	need := []string{as.capability}
	if req.Stream {
		need = append(need, "stream")
	}
	if req.Logprobs {
		need = append(need, "logprobs")
	}
	return need
}

// forEach makes a call for each of the requests that one was split into, like
// that of the first.
func (h *Handler) forEach(split []*openaiapi.Request, model *catalog.Model, first *relay.Call) ([]*relay.Call, error) {
	calls := []*relay.Call{first}
	for _, req := range split[1:] {
		bounds, err := admission.BoundsOf(req, model)
		if err != nil {
			return nil, err
		}
		id, err := ids.NewRequest(h.Clock.Now(), h.Random)
		if err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
		call := *first
		call.RequestID, call.Order.ID = id.String(), id.String()
		call.Sent = req.Body(nil, model.ID, bounds.MaxOutputTokens)
		if call.Order.BodyBytes = int64(len(call.Sent.Body)); call.Order.BodyBytes > h.cfg.MaxBody {
			return nil, tooLarge(h.cfg.MaxBody) // a hub takes no more either
		}
		call.Order.PromptTokens, call.Order.WindowTokens, call.Order.Bounds = req.BillablePrompt(), req.LargestTokens, bounds
		calls = append(calls, &call)
	}
	return calls, nil
}
