package admission

import (
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// The margin of the hold over the estimate, because chat templates add tokens to each
// message and an estimate errs. Where the parser's bound of the prompt is larger, the
// bound is held instead: it is cut to the model's window, because no engine takes a
// longer prompt, and the parts for the request and its messages are added.
const (
	holdPercent    = 115
	holdPerRequest = 16
	holdPerMessage = 8
)

// Bounds are the most that a request can use, and what its prompt is estimated at,
// in the unit of the model's prices: tokens, or images as the completion, or
// milliseconds of audio as the prompt.
type Bounds struct {
	// PromptTokens is the estimate of the prompt without margin: of audio exact, of
	// images 0.
	PromptTokens int64
	// MaxOutputTokens bounds one choice; it is never 0.
	MaxOutputTokens int64
	// PromptRoom is the part of a window that is left to the prompt when the client names
	// no bound of the answer: the estimate with a small margin. The hold may be far above
	// it, because it covers what pictures hardly ever cost.
	PromptRoom int64
	// HoldPromptTokens covers the tokens that nearly every engine makes of the prompt. A
	// claim within it counts as honest. The corpus test compares it with tokenizers.
	HoldPromptTokens int64
	// HoldCompletionTokens bounds all choices together.
	HoldCompletionTokens int64
}

// AudioBounds returns the bounds of a transcription of so many milliseconds, which are
// measured and need no margin.
func AudioBounds(ms int64) Bounds {
	return Bounds{PromptTokens: ms, MaxOutputTokens: 1, HoldPromptTokens: ms}
}

// BoundsOf computes the bounds of a request of a size on a model that serves what
// is asked for. It fails when the client asks for a longer answer than the model
// gives.
func BoundsOf(size openaiapi.Size, m *catalog.Model) (Bounds, error) {
	switch m.Endpoint {
	case hubv1.Endpoint_ENDPOINT_EMBEDDINGS:
		return Bounds{
			PromptTokens:     size.PromptTokens,
			MaxOutputTokens:  1,
			HoldPromptTokens: holdOf(size, m.ContextLength*size.Inputs) + holdPerMessage*size.Inputs,
		}, nil
	case hubv1.Endpoint_ENDPOINT_IMAGES:
		return Bounds{MaxOutputTokens: 1, HoldCompletionTokens: size.Choices}, nil
	default:
		return boundsOfText(size, m)
	}
}

// holdOf returns the hold for a prompt of which an engine reads so many tokens at most.
func holdOf(size openaiapi.Size, window int64) int64 {
	return max(withMargin(size.PromptTokens), min(size.PromptBound, window)+holdPerRequest)
}

func withMargin(tokens int64) int64 { return (tokens*holdPercent+99)/100 + holdPerRequest }

func boundsOfText(size openaiapi.Size, m *catalog.Model) (Bounds, error) {
	if size.MaxTokens > m.MaxOutputTokens {
		return Bounds{}, fault.New(fault.Invalid, fault.InvalidValue,
			"%s is %d; this model answers with at most %d tokens", size.MaxTokensParam, size.MaxTokens, m.MaxOutputTokens).
			On(size.MaxTokensParam)
	}
	out := m.MaxOutputTokens
	if size.MaxTokens > 0 {
		out = size.MaxTokens
	}
	// The rest of the window bounds the answer. The router, which knows the windows
	// online, decides whether the prompt fits at all. The bound is sent to the engine,
	// which refuses a bound that does not fit beside the prompt as it counts it. So a
	// client that names no bound gets a bound that leaves room for the estimate's margin.
	room := withMargin(size.PromptTokens) + holdPerMessage*size.Messages
	if size.MaxTokens > 0 {
		out = max(1, min(out, m.ContextLength-size.PromptTokens))
	} else {
		out = max(1, min(out, m.ContextLength-room))
	}
	// All factors are bounded by the parser (a body of 10 MiB, 16 choices, a
	// window within int32), so nothing here can wrap.
	return Bounds{
		PromptTokens:         size.PromptTokens,
		MaxOutputTokens:      out,
		PromptRoom:           room,
		HoldPromptTokens:     holdOf(size, m.ContextLength) + holdPerMessage*size.Messages,
		HoldCompletionTokens: out * size.Choices,
	}, nil
}
