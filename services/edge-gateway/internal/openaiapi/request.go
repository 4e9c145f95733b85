package openaiapi

import (
	"cmp"
	"slices"

	"svc.internal/pkg/jsonscan"
)

// Request is a checked body.
type Request struct {
	// Model is the name as the client wrote it: an id or an alias.
	Model string
	// Stream asks for server-sent events.
	Stream bool
	// IncludeUsage is stream_options.include_usage as the client wrote it.
	IncludeUsage bool
	// IncludeCost is usage.include: the client wants usage and its cost.
	IncludeCost bool
	Size
	// Routing says which providers may serve, Models which models are tried next, by id
	// or alias.
	Routing Routing
	Models  []string
	// Stop reports whether the request names texts that end its answer.
	Stop bool
	// NamesMedia reports whether messages name media by address, EngineMembers whether
	// the body has members that are an engine's own.
	NamesMedia, EngineMembers bool
	// Logprobs reports whether token probabilities are asked for.
	Logprobs bool
	// Greedy reports whether the temperature is 0, and Tools whether the model is given
	// tools or functions.
	Greedy, Tools bool
	// Base64 reports whether embeddings are wanted as base64.
	Base64 bool

	data  []byte
	model jsonscan.Span
	edits []edit
	// prompts are the prompts of a legacy completion that has several; see Split. only
	// is where the prompt of one of its requests stands.
	prompts []promptAt
	only    jsonscan.Span
	// formatAt asks for images in base64; nil for what the client decided.
	formatAt *edit
}

// Size is how much a request asks for. The bounds of a request on a model are made
// of it.
type Size struct {
	// MaxTokens is the larger of max_tokens and max_completion_tokens, because engines
	// differ in which they obey; 0 when neither is there.
	MaxTokens int64
	// MaxTokensParam names the member that MaxTokens comes from.
	MaxTokensParam string
	// Choices is how many answers the engine makes: the larger of n and best_of, or the
	// number of images.
	Choices int64
	// Messages counts messages; a legacy completion has one.
	Messages int64
	// Inputs is how many embeddings are asked for.
	Inputs int64
	// PromptTokens estimates the prompt, without any margin. An input that was sent as
	// tokens is counted.
	PromptTokens int64
	// PromptBound is a number of tokens of which hardly any engine makes more of the
	// prompt; the hold must cover it. It has the parts that the estimate leaves out
	// because they reach the prompt of few engines or of none: names of members, numbers
	// that stand alone, and pictures and sound beyond their usual cost.
	PromptBound int64
	// LargestTokens is PromptTokens, or the tokens of the largest of several inputs,
	// because each has the window for itself.
	LargestTokens int64
}

// edit replaces a byte range of the body; an empty range is an insertion.
type edit struct {
	span jsonscan.Span
	text string
	role role
}

// role is the part of a body that an edit writes anew for another model, or that differs
// between the requests that one is split into.
type role uint8

const (
	plain role = iota
	modelName
	answerBound
	promptText
)

// promptAt is one of several prompts.
type promptAt struct {
	text jsonscan.Span // quotes included
	// tokens and bound are its part of PromptTokens and PromptBound.
	tokens, bound int64
}

// Split returns a request for each of the prompts of a legacy completion, in their order.
// Each is the same request with that prompt alone. Any other request is returned alone.
// size bounds the bytes that all of them send together before they are patched, because
// the members beside several prompts go with each of them.
func (r *Request) Split() (split []*Request, size int64) {
	if len(r.prompts) == 0 {
		return []*Request{r}, int64(len(r.data))
	}
	var tokens, bound int64
	texts := 0
	for _, p := range r.prompts {
		tokens += p.tokens
		bound += p.bound
		texts += p.text.Len()
	}
	split = make([]*Request, len(r.prompts))
	for i, p := range r.prompts {
		one := *r
		one.prompts, one.only = nil, p.text
		one.PromptTokens += p.tokens - tokens
		one.PromptBound += p.bound - bound
		one.LargestTokens = one.PromptTokens
		split[i] = &one
	}
	return split, int64(len(split))*int64(len(r.data)-texts) + int64(texts)
}

// AskForBase64 asks the engine for images within its answer, unless the client named a
// form, because an address that an engine hands out often leads to the engine itself. An
// engine that refuses response_format must not be asked, such as one whose answers are
// always base64.
func (r *Request) AskForBase64() {
	if r.formatAt != nil {
		r.edits = append(r.edits, *r.formatAt)
		r.formatAt = nil
	}
}

// The text around a prompt that becomes a message.
const (
	messageOpen  = `[{"role":"user","content":`
	messageClose = `}]`
)

// Body returns the provider's body in memory of its own, with the model named by its catalog id and the
// bound of one choice, in tokens. The bound is always written where the kind has one.
// Engines have bounds of their own below or above it, and the billed and the delivered
// answer must have the same bound.
func (r *Request) Body(modelID string, maxTokens int64) Sent {
	name := r.data[r.model.Start:r.model.End]
	if r.Model != modelID {
		name = jsonscan.AppendString(nil, modelID)
	}
	edits := append(slices.Clone(r.edits), edit{span: r.model, role: modelName})
	// An insertion at the place where a cut begins goes first.
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.span.Start, b.span.Start), cmp.Compare(a.span.End, b.span.End))
	})
	w := writer{dst: make([]byte, 0, len(r.data)+r.added(edits, name))}
	at := 0
	for _, e := range edits {
		w.dst = append(w.dst, r.data[at:e.span.Start]...)
		switch e.role {
		case modelName:
			w.model(name)
		case answerBound:
			w.bound(maxTokens)
		case promptText:
			w.dst = append(append(append(w.dst, messageOpen...), r.only.Of(r.data)...), messageClose...)
		case plain:
			w.dst = append(w.dst, e.text...)
		}
		at = e.span.End
	}
	w.dst = append(w.dst, r.data[at:]...)
	return w.sent()
}

// added returns how many bytes edits add to the body at most. Bytes that they take away do not count where the
// body becomes shorter.
func (r *Request) added(edits []edit, name []byte) int {
	n := 0
	for _, e := range edits {
		n -= e.span.Len()
		switch e.role {
		case modelName:
			n += len(name)
		case answerBound:
			n += maxDigits
		case promptText:
			n += len(messageOpen) + r.only.Len() + len(messageClose)
		case plain:
			n += len(e.text)
		}
	}
	return n
}
