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
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// patchRoom is what patching may add to a body: a longer model name, the
// option that asks for usage, the bound of the answer, and the message around a
// legacy prompt.
const patchRoom = 512

// jsonEndpoint is an endpoint whose bodies are JSON.
type jsonEndpoint struct {
	kind     openaiapi.Kind
	endpoint hubv1.Endpoint
	// capability is what the provider must have declared for it.
	capability string
	// promptParam is the parameter that may be too long.
	promptParam string
}

// The provider of a text completion sees a chat completion.
var (
	chatCompletions  = jsonEndpoint{openaiapi.Chat, hubv1.Endpoint_ENDPOINT_CHAT, "chat", "messages"}
	completions      = jsonEndpoint{openaiapi.Completion, hubv1.Endpoint_ENDPOINT_CHAT, "chat", "prompt"}
	embeddings       = jsonEndpoint{openaiapi.Embeddings, hubv1.Endpoint_ENDPOINT_EMBEDDINGS, "embeddings", "input"}
	imageGenerations = jsonEndpoint{openaiapi.Images, hubv1.Endpoint_ENDPOINT_IMAGES, "images", "prompt"}
)

// serve answers a POST.
func (e jsonEndpoint) serve(h *Handler, x *exchange) error { return h.answerJSON(x, e) }

// answerJSON serves one request whose body is JSON. The order of its steps is
// the public order of errors: 413, 401, 400, 404, 403, then what admission says.
//
// The body is read before a claim is made, because it is part of what an
// Idempotency-Key stands for.
func (h *Handler) answerJSON(x *exchange, e jsonEndpoint) error {
	in, err := h.enter(x, h.cfg.MaxBody, checkForm)
	if err != nil {
		return err
	}
	defer h.freeBody(x)
	if err := h.readBody(x, h.cfg.MaxBody); err != nil {
		return err
	}
	if in.token == "" {
		return h.runJSON(x, e, in)
	}
	ask := idempotency.Ask{Token: in.token, Holds: int64(x.raw.Cap())}
	return h.once(x, in.who, ask, x.raw.Bytes(), func() error {
		// The key may have been revoked while the request waited for another.
		if in.who, err = h.authenticateAfresh(x); err != nil {
			return err
		}
		return h.runJSON(x, e, in)
	})
}

// runJSON runs what a body asks for. The body itself is not kept for the length of
// the answer.
func (h *Handler) runJSON(x *exchange, e jsonEndpoint, in entered) error {
	sent := h.buffers.get()
	defer h.buffers.put(sent)
	calls, err := h.prepare(x, e, in, x.raw.Bytes(), sent)
	h.freeBody(x)
	switch {
	case err != nil:
		return err
	case len(calls) > 1:
		return h.runAll(x, calls)
	}
	return h.run(x, calls[0])
}

// prepare checks a body, and leaves in sent what goes to the provider. There is one
// call for each prompt of a legacy completion, and otherwise one.
func (h *Handler) prepare(
	x *exchange, e jsonEndpoint, in entered, raw []byte, sent *bytes.Buffer,
) ([]*inference.Call, error) {
	req, err := openaiapi.Parse(e.kind, raw)
	if err != nil {
		return nil, err
	}
	if req.Messages > h.cfg.MaxMessages {
		return nil, fault.New(fault.Invalid, fault.InvalidValue,
			"messages must have at most %d elements", h.cfg.MaxMessages).On("messages")
	}
	if req.SplitBytes() > h.cfg.MaxBody {
		return nil, tooLarge(h.cfg.MaxBody)
	}
	h.rateOf(x, req.Model)
	pin, prefer := admission.Choose(in.pin, req.Routing)
	setRoute(x.Header(), pin)
	split := req.Split()
	choices, err := h.resolve(e.endpoint, in.who, split[0])
	if err != nil {
		return nil, err
	}
	model := choices[0].model
	x.choices = choices[1:]
	setDeprecation(x.Header(), model.DeprecatedAt)
	x.model, x.stream = model.ID, req.Stream
	x.facts = append(x.facts, slog.String("model", model.ID), slog.Bool("stream", req.Stream))
	if model.TakesResponseFormat {
		req.AskForBase64()
	}
	sent.Grow(len(raw) + patchRoom)
	call := callOf(x, e, in.who, req, model)
	call.Order.Pin, call.Order.Prefer = pin, prefer
	if err := h.setPrompt(call, split[0], choices[0].bounds, sent.AvailableBuffer()); err != nil {
		return nil, err
	}
	return h.forEach(split, model, call)
}

// callOf is the call that a request makes, but for its prompt and its provider.
func callOf(
	x *exchange, e jsonEndpoint, who *auth.Principal, req *openaiapi.Request, model *catalog.Model,
) *inference.Call {
	return &inference.Call{
		RequestID:       x.id,
		ReceivedAt:      x.started,
		Endpoint:        e.endpoint,
		Legacy:          e.kind == openaiapi.Completion,
		Stream:          req.Stream,
		StopAsked:       req.Stop,
		NamesMedia:      req.NamesMedia,
		EngineMembers:   req.EngineMembers,
		HiddenReasoning: model.HiddenReasoning,
		IncludeUsage:    req.IncludeUsage,
		IncludeCost:     req.IncludeCost,
		Choices:         int32(req.Choices),
		Inputs:          int32(req.Inputs),
		Base64:          req.Base64,
		Order: admission.Request{
			ID:                x.id,
			KeyID:             who.KeyID,
			AccountTag:        who.AccountTag,
			ModelID:           model.ID,
			PromptParam:       e.promptParam,
			ExplicitMaxTokens: req.MaxTokens,
			MaxTokensParam:    req.MaxTokensParam,
			Capabilities:      capabilities(e, req),
		},
	}
}

// setPrompt fills in what a call says of its own prompt. What is sent is written
// into room, if there is enough.
func (h *Handler) setPrompt(
	call *inference.Call, prompt *openaiapi.Request, bounds admission.Bounds, room []byte,
) error {
	call.Sent = prompt.Body(room, call.Order.ModelID, bounds.MaxOutputTokens)
	call.Order.BodyBytes = int64(len(call.Sent.Body))
	if call.Order.BodyBytes > h.cfg.MaxBody {
		return tooLarge(h.cfg.MaxBody) // a hub takes no more either
	}
	call.Order.PromptTokens, call.Order.WindowTokens = prompt.BillablePrompt(), prompt.LargestTokens
	call.Order.Bounds = bounds
	return nil
}

// capabilities is what the provider must have declared.
func capabilities(e jsonEndpoint, req *openaiapi.Request) []string {
	need := []string{e.capability}
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
func (h *Handler) forEach(
	split []*openaiapi.Request, model *catalog.Model, first *inference.Call,
) ([]*inference.Call, error) {
	calls := []*inference.Call{first}
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
		if err := h.setPrompt(&call, req, bounds, nil); err != nil {
			return nil, err
		}
		calls = append(calls, &call)
	}
	return calls, nil
}
