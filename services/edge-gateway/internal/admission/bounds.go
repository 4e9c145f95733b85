package admission

import (
	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// The margin of the hold over the estimate: chat templates add tokens to each
// message, and an estimate errs. Where the parser's bound of the prompt is
// larger, it is held, as far as the model's window goes: no engine takes a longer
// prompt than that.
const (
	holdPercent    = 115
	holdPerRequest = 16
	holdPerMessage = 8
)

// Bounds are the most that a request can use, in the unit of the model's
// prices: tokens, or images as the completion, or milliseconds of audio as the
// prompt.
type Bounds struct {
	// MaxOutputTokens bounds one choice; it is never 0.
	MaxOutputTokens int64
	// PromptRoom is what an answer without a bound of the client's leaves of a
	// window for the prompt: the estimate with a small margin. The hold may be far
	// above it, because it covers what pictures hardly ever cost.
	PromptRoom int64
	// HoldPromptTokens covers what nearly every engine makes of the prompt. A
	// claim within it is honest; the corpus test holds it against tokenizers.
	HoldPromptTokens int64
	// HoldCompletionTokens bounds all choices together.
	HoldCompletionTokens int64
}

// AudioBounds are the bounds of a transcription of so many milliseconds, which
// are measured and need no margin.
func AudioBounds(ms int64) Bounds { return Bounds{MaxOutputTokens: 1, HoldPromptTokens: ms} }

// BoundsOf computes the bounds of a request on a model. It fails when the
// client asks for a longer answer than the model gives.
func BoundsOf(req *openaiapi.Request, m *catalog.Model) (Bounds, error) {
	switch req.Kind {
	case openaiapi.Embeddings:
		return Bounds{
			MaxOutputTokens:  1,
			HoldPromptTokens: holdOf(req, m.ContextLength*req.Inputs) + holdPerMessage*req.Inputs,
		}, nil
	case openaiapi.Images:
		return Bounds{MaxOutputTokens: 1, HoldCompletionTokens: req.Choices}, nil
	default:
		return boundsOfText(req, m)
	}
}

// holdOf is what is held for a prompt whose engine reads so many tokens at most.
func holdOf(req *openaiapi.Request, window int64) int64 {
	return max(withMargin(req.PromptTokens), min(req.PromptBound, window)+holdPerRequest)
}

func withMargin(tokens int64) int64 { return (tokens*holdPercent+99)/100 + holdPerRequest }

func boundsOfText(req *openaiapi.Request, m *catalog.Model) (Bounds, error) {
	if req.MaxTokens > m.MaxOutputTokens {
		return Bounds{}, fault.New(fault.Invalid, fault.InvalidValue,
			"%s is %d; this model answers with at most %d tokens", req.MaxTokensParam, req.MaxTokens, m.MaxOutputTokens).
			On(req.MaxTokensParam)
	}
	out := m.MaxOutputTokens
	if req.MaxTokens > 0 {
		out = req.MaxTokens
	}
	// What remains of the window bounds the answer; whether the prompt fits at
	// all is the router's to say, who knows the windows online. The bound is sent
	// to the engine, which refuses one that does not fit beside the prompt as it
	// counts it. So a client that names no bound gets one that leaves room for
	// the estimate's margin.
	room := withMargin(req.PromptTokens) + holdPerMessage*req.Messages
	if req.MaxTokens > 0 {
		out = max(1, min(out, m.ContextLength-req.PromptTokens))
	} else {
		out = max(1, min(out, m.ContextLength-room))
	}
	// All factors are bounded by the parser (a body of 10 MiB, 16 choices, a
	// window within int32), so nothing here can wrap.
	return Bounds{
		MaxOutputTokens:      out,
		PromptRoom:           room,
		HoldPromptTokens:     holdOf(req, m.ContextLength) + holdPerMessage*req.Messages,
		HoldCompletionTokens: out * req.Choices,
	}, nil
}
