package inference

import (
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// Request is one checked request. It does not change while it runs.
type Request struct {
	Prompt
	// More are the further prompts of a text completion with several.
	More       []Prompt
	ReceivedAt time.Time
	KeyID      string
	// AccountTag is how routers and hubs know whose request it is.
	AccountTag []byte
	// Claim is the right to run the request; nil without an Idempotency-Key.
	Claim *idempotency.KeyClaim
	// Models are tried in this order. There is at least one.
	Models []Model
	// Endpoint is what the provider is asked for.
	Endpoint hubv1.Endpoint
	Stream   bool
	// StopAsked reports that the client names what ends the answer.
	StopAsked bool
	// NamesMedia reports that messages name media by address, EngineMembers that the body has members that
	// are an engine's own.
	NamesMedia, EngineMembers bool
	// Choices is how many answers are asked for, of images how many images; Inputs is how many embeddings.
	Choices, Inputs int32
	AnswerForm      hubv1.AnswerForm
	// ContentType is that of the bodies, with its parameters; empty for JSON.
	ContentType string
	// Answer is what the answer looks like. Its RequestID and Model are set for each model attempt.
	Answer rewrite.Spec
	// Capabilities are what the provider must have declared.
	Capabilities []string
	Pin          admission.Pin
	// Prefer is whom the client wants besides.
	Prefer admission.Preferences
	// PromptParam and MaxTokensParam name the parameters with the prompt and with the answer's bound, should
	// they be too large.
	PromptParam, MaxTokensParam string
	// MaxTokens is 0 when the client did not say.
	MaxTokens int64
}

// Prompt is one prompt of a request, which has an id of its own.
type Prompt struct {
	ID string
	// Sent is what is sent, with where the model's name and the bound of the answer stand in it.
	Sent openaiapi.Sent
	// Bounds are those of the first model.
	Bounds admission.Bounds
	// PromptTokens is the estimate without margin, in the unit of the model's prices: of audio the exact
	// milliseconds, of images 0.
	PromptTokens int64
	// WindowTokens is what the model's context window has to hold at once; 0 when that is no question.
	WindowTokens int64
}

// Model is a model that may serve a request, and what the request may use of it.
type Model struct {
	*catalog.Model
	Bounds admission.Bounds
}
