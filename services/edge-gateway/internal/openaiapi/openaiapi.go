// Package openaiapi reads the JSON bodies of /v1 once, strictly, and patches them without
// marshalling them again: chat completions, legacy completions, embeddings and images.
//
// Parse walks the raw JSON in one pass. It refuses a body that does not have OpenAI's
// shape, finds the few facts that the gateway decides by (model, stream, the bounds of
// the answer), estimates the prompt's tokens and notes where bytes have to change. No
// forwarded byte is free. A member that the gateway does not know, at any depth, counts
// as text of the prompt (see extra.go); pictures and sound count by their size and length
// (see picture.go and media.go). Only the modelled members that no engine puts into a
// prompt (temperature, seed, stop, logit_bias and the like) and our own do not count.
// Request.Body then writes the provider's body. Every byte stays as the client sent it,
// except the model's name when an alias was used, stream_options.include_usage on
// streams, the bound of the answer (max_tokens), and our own members (provider, models,
// usage), which are removed. A legacy completion becomes a chat completion in the same
// way: its prompt, as it is written, becomes the one message. A completion with several
// prompts becomes as many chat completions (see Request.Split).
//
// A name that the gateway acts on may stand once only, and no other name may equal it by
// case folding, because engines written in Go would read the other name instead. Unknown
// names pass through unchanged. A null counts as absent.
//
// Limits: MaxMessages, MaxChoices and the other constants below; nesting as
// jsonscan.DefaultMaxDepth. The caller bounds the length of the body. Errors are faults
// of kind Invalid that name the field and never quote it.
package openaiapi

import (
	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"
)

// The bounds of a request.
const (
	// MaxMessages bounds messages.
	MaxMessages = 2048
	// MaxChoices bounds n and best_of.
	MaxChoices = 16
	// MaxTopLogprobs bounds top_logprobs and vLLM's prompt_logprobs.
	MaxTopLogprobs = 20
	// MaxTools bounds tools and functions.
	MaxTools = 256
	// MaxParts bounds the parts of one message.
	MaxParts = 1024
	// MaxStops and MaxStopBytes bound stop.
	MaxStops     = 4
	MaxStopBytes = 4096
	// MaxLogitBias bounds the entries of logit_bias.
	MaxLogitBias = 1024
	// MaxNameBytes bounds names and ids, the model's included.
	MaxNameBytes = 256
	// MaxImageURLBytes bounds an http or https image address.
	MaxImageURLBytes = 8 << 10
	// MaxImageDataBytes bounds an image sent within the body.
	MaxImageDataBytes = 8 << 20
	// MaxMembers bounds the members of the top-level object.
	MaxMembers = 1024
	// MaxTokens is the largest max_tokens that is read; a model's own bound
	// is far below.
	MaxTokens = 1 << 30
	// MaxInputs bounds the inputs of an embeddings request, MaxInputTokens the
	// tokens of all that are sent as tokens.
	MaxInputs      = 2048
	MaxInputTokens = 1 << 20
	// MaxPrompts bounds the prompts of a legacy completion.
	MaxPrompts = 16
	// MaxDimensions bounds dimensions.
	MaxDimensions = 1 << 16
	// MaxImages bounds n of an images request, MaxPartialImages partial_images.
	MaxImages        = 10
	MaxPartialImages = 3
)

// DefaultCompletionTokens is max_tokens of a legacy completion that has none.
const DefaultCompletionTokens = 16

// Kind is what a body asks for.
type Kind uint8

// The kinds of bodies.
const (
	Chat Kind = iota
	// Completion is a legacy completion, which is sent on as chat.
	Completion
	Embeddings
	Images

	kindCount
)

// Reasons of the public error table that only this package gives.
const (
	DuplicateField           fault.Reason = "duplicate_field"
	MissingRequiredParameter fault.Reason = "missing_required_parameter"
)

// Parse reads body, which must not change while the request is in use. It refuses strings
// that are not UTF-8, because agents and engines differ in how they read them.
func Parse(kind Kind, body []byte) (*Request, error) {
	p := parser{
		grammar: &grammars[kind],
		data:    body,
		cur:     jsonscan.New(body, jsonscan.Options{RefuseInvalidUTF8: true}).Cursor(),
		req:     &Request{data: body, Size: Size{Choices: 1}},
	}
	if p.cur.Kind() != jsonscan.Object {
		return nil, p.notAnObject()
	}
	p.object()
	if p.fault != nil {
		return nil, p.fault
	}
	if err := p.cur.End(); err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "the body is not valid JSON: %v", err)
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return p.req, nil
}

func (p *parser) notAnObject() error {
	if err := jsonscan.New(p.data, jsonscan.Options{RefuseInvalidUTF8: true}).Valid(); err != nil {
		return fault.New(fault.Invalid, fault.InvalidRequest, "the body is not valid JSON: %v", err)
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, "the body must be a JSON object")
}

// finish checks what depends on the whole request.
func (p *parser) finish() error {
	for _, required := range p.grammar.required {
		if !p.present[required] {
			return fault.New(fault.Invalid, MissingRequiredParameter,
				"missing required parameter: %s", fieldNames[required]).On(fieldNames[required])
		}
	}
	// What stands beside the inputs may go with each of them.
	p.req.PromptTokens += p.aside
	p.req.PromptBound += p.asideBound * max(1, p.req.Inputs)
	if p.req.LargestTokens == 0 {
		p.req.LargestTokens = p.req.PromptTokens
	} else {
		p.req.LargestTokens += p.aside
	}
	if p.grammar.finish != nil {
		return p.grammar.finish(p)
	}
	return nil
}
