package httpapi

import (
	"fmt"
	"log/slog"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
	"svc.internal/services/edge-gateway/internal/shapes"
)

// jsonEndpoint is an endpoint whose bodies are JSON.
type jsonEndpoint struct {
	kind openaiapi.Kind
	// endpoint is the kind of request that the provider gets, answer the kind of answer
	// that the client gets.
	endpoint hubv1.Endpoint
	answer   rewrite.Kind
	// capability is the capability that the provider must have declared.
	capability string
	// promptParam is the parameter that may be too long.
	promptParam string
}

// The provider of a text completion sees a chat completion.
var (
	chatCompletions = jsonEndpoint{
		openaiapi.Chat, hubv1.Endpoint_ENDPOINT_CHAT, rewrite.Chat, "chat", "messages"}
	completions = jsonEndpoint{
		openaiapi.Completion, hubv1.Endpoint_ENDPOINT_CHAT, rewrite.Completion, "chat", "prompt"}
	embeddings = jsonEndpoint{
		openaiapi.Embeddings, hubv1.Endpoint_ENDPOINT_EMBEDDINGS, rewrite.Embeddings, "embeddings", "input"}
	imageGenerations = jsonEndpoint{
		openaiapi.Images, hubv1.Endpoint_ENDPOINT_IMAGES, rewrite.Images, "images", "prompt"}
)

// serve answers a POST.
func (e jsonEndpoint) serve(h *Handler, x *exchange) error { return h.answerJSON(x, e) }

// answerJSON serves one request whose body is JSON. The order of its steps is the public
// order of errors: 413, 401, 400, 404, 403, then the errors of admission.
//
// The body is read before a claim is made, because an Idempotency-Key stands for that
// body.
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

// runJSON runs the request of a body. The body itself is not kept while the answer is
// written.
func (h *Handler) runJSON(x *exchange, e jsonEndpoint, in entered) error {
	req, err := h.prepare(x, e, in, x.raw.Bytes())
	h.freeBody(x)
	if err != nil {
		return err
	}
	return h.run(x, req)
}

// prepare checks a body and builds the provider's body in memory of its own, which a hub in this process
// shares for as long as it sends the body.
func (h *Handler) prepare(x *exchange, e jsonEndpoint, in entered, raw []byte) (*inference.Request, error) {
	req, err := openaiapi.Parse(e.kind, raw)
	if err != nil {
		return nil, err
	}
	if req.Messages > h.cfg.MaxMessages {
		return nil, fault.New(fault.Invalid, fault.InvalidValue,
			"messages must have at most %d elements", h.cfg.MaxMessages).On("messages")
	}
	split, size := req.Split()
	if size > h.cfg.MaxBody {
		return nil, tooLarge(h.cfg.MaxBody)
	}
	x.category = h.category(req.Model)
	pin, prefer := admission.Choose(in.pin, req.Routing)
	setRoute(x.Header(), pin)
	models, err := h.resolve(e.endpoint, in.who, req.Model, req.Models, split[0].Size)
	if err != nil {
		return nil, err
	}
	model := models[0]
	setDeprecation(x.Header(), model.DeprecatedAt)
	x.model, x.stream = model.ID, req.Stream
	x.facts = append(x.facts, slog.String("model", model.ID), slog.Bool("stream", req.Stream))
	if model.TakesResponseFormat {
		req.AskForBase64()
	}
	run := requestOf(x, e, in.who, req)
	run.Models, run.Pin, run.Prefer = models, pin, prefer
	run.Prompt, err = h.promptOf(split[0], x.id, model)
	if err != nil {
		return nil, err
	}
	run.More, err = h.furtherPrompts(split[1:], model)
	return run, err
}

// requestOf is a request as package inference runs it, but for its models and prompts.
func requestOf(x *exchange, e jsonEndpoint, who *auth.Principal, req *openaiapi.Request) *inference.Request {
	return &inference.Request{
		ReceivedAt:    x.started,
		KeyID:         who.KeyID,
		AccountTag:    who.AccountTag,
		Priority:      who.Priority,
		Claim:         x.claim,
		Endpoint:      e.endpoint,
		StopAsked:     req.Stop,
		NamesMedia:    req.NamesMedia,
		EngineMembers: req.EngineMembers,
		Inputs:        int32(req.Inputs),
		Answer: rewrite.Spec{
			Kind:      e.answer,
			Stream:    req.Stream,
			ShowUsage: req.IncludeUsage,
			ShowCost:  req.IncludeCost || who.IncludeUsage,
			Choices:   int(req.Choices),
			Base64:    req.Base64,
		},
		Capabilities: capabilities(e, req),
		PromptParam:  e.promptParam,
		MaxTokens:    req.MaxTokens,
		Shape: shapes.Shape{
			Streamed: req.Stream, Greedy: req.Greedy, Logprobs: req.Logprobs, Tools: req.Tools, PromptTokens: req.PromptTokens,
		},
		MaxTokensParam: req.MaxTokensParam,
	}
}

// capabilities returns the capabilities that the provider must have declared.
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

// promptOf is one prompt as it is sent to the providers of a model.
func (h *Handler) promptOf(req *openaiapi.Request, id string, model inference.Model) (inference.Prompt, error) {
	p := inference.Prompt{
		ID:           id,
		Sent:         req.Body(model.ID, model.Bounds.MaxOutputTokens),
		Bounds:       model.Bounds,
		WindowTokens: req.LargestTokens,
	}
	if int64(len(p.Sent.Body)) > h.cfg.MaxBody {
		return p, tooLarge(h.cfg.MaxBody) // a hub takes no more either
	}
	return p, nil
}

// furtherPrompts gives an id to each request behind the first that the body was split
// into.
func (h *Handler) furtherPrompts(split []*openaiapi.Request, model inference.Model) ([]inference.Prompt, error) {
	var further []inference.Prompt
	for _, req := range split {
		bounds, err := admission.BoundsOf(req.Size, model.Model)
		if err != nil {
			return nil, err
		}
		id, err := ids.NewRequest(h.Clock.Now(), h.Random)
		if err != nil {
			return nil, fmt.Errorf("make an id: %w", err)
		}
		p, err := h.promptOf(req, id.String(), inference.Model{Model: model.Model, Bounds: bounds})
		if err != nil {
			return nil, err
		}
		further = append(further, p)
	}
	return further, nil
}

// run serves a request and answers it, or returns the error to answer with.
func (h *Handler) run(x *exchange, req *inference.Request) error {
	ctx := x.request.Context()
	switch one := len(req.More) == 0; {
	case one && req.Answer.Stream:
		x.result = h.Runner.Run(ctx, req, h.newSSESink(x, req.Answer.Kind))
	case one:
		out := newPacedWriter(x, x.control, h.cfg.AnswerTimeout)
		x.result = h.Runner.Run(ctx, req, &wholeSink{exchange: x, out: out})
	default:
		return h.runPrompts(x, req)
	}
	r := &x.result
	if !r.Held {
		return r.Err
	}
	x.facts = append(x.facts,
		slog.Int("attempts", len(r.Attempts)),
		slog.Int64("first_content_ms", r.FirstContent.Milliseconds()),
		slog.Int64("completion_tokens", r.Tokens))
	if r.Served != nil {
		x.facts = append(x.facts, slog.String("provider", r.Served.GetProviderId()))
	}
	if r.Usage != nil {
		x.facts = append(x.facts, slog.Int64("billed_prompt_tokens", r.Usage.GetBillablePromptTokens()),
			slog.Int64("billed_completion_tokens", r.Usage.GetBillableCompletionTokens()))
	}
	return r.Err
}

// runPrompts is run for a request with several prompts.
func (h *Handler) runPrompts(x *exchange, req *inference.Request) error {
	x.facts = append(x.facts, slog.Int("prompts", 1+len(req.More)))
	var billed rewrite.Usage
	x.result, billed = h.Runner.RunPrompts(x.request.Context(), req, h.newMergedSink(x, req))
	x.facts = append(x.facts,
		slog.Int("attempts", len(x.result.Attempts)),
		slog.Int64("completion_tokens", x.result.Tokens),
		slog.Int64("billed_prompt_tokens", billed.Prompt),
		slog.Int64("billed_completion_tokens", billed.Completion))
	return x.result.Err
}
