package inference

import (
	"context"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
	"svc.internal/services/edge-gateway/internal/shapes"
)

// Request is one checked request. It does not change while it runs, except that the body of a prompt is dropped
// once an attempt is committed.
type Request struct {
	Prompt
	// More are the further prompts of a text completion with several.
	More       []Prompt
	ReceivedAt time.Time
	KeyID      string
	// AccountTag is the name under which routers and hubs know the account.
	AccountTag []byte
	// Priority lets the request wait ahead of others for a provider.
	Priority bool
	// Claim is the right to run the request; nil without an Idempotency-Key.
	Claim *idempotency.KeyClaim
	// Models are tried in this order. There is at least one.
	Models []Model
	// Endpoint is the kind of request that the provider gets.
	Endpoint hubv1.Endpoint
	// StopAsked reports whether the client names texts that end the answer.
	StopAsked bool
	// NamesMedia reports whether messages name media by address, EngineMembers whether the body has members
	// that are an engine's own.
	NamesMedia, EngineMembers bool
	// Inputs is how many embeddings are asked for.
	Inputs     int32
	AnswerForm hubv1.AnswerForm
	// ContentType is the type of the bodies, with its parameters; empty for JSON.
	ContentType string
	// Answer is the form of the answer. Its RequestID and Model are set for each model attempt.
	Answer rewrite.Spec
	// Capabilities are the capabilities that the provider must have declared.
	Capabilities []string
	Pin          admission.Pin
	// Prefer is the client's wishes about providers, beside the pin.
	Prefer admission.Preferences
	// PromptParam and MaxTokensParam name the parameters of the prompt and of the answer's bound, for the
	// error when one is too large.
	PromptParam, MaxTokensParam string
	// MaxTokens is 0 when the client gave no bound.
	MaxTokens int64
	// Shape is what a chat looks like beside its text.
	Shape shapes.Shape
}

// Prompt is one prompt of a request, which has an id of its own.
type Prompt struct {
	ID string
	// Sent is the body that is sent, with the places of the model's name and of the answer's bound.
	Sent openaiapi.Sent
	// Bounds are the bounds of the first model.
	Bounds admission.Bounds
	// WindowTokens is how many tokens the model's context window must hold at once; 0 for a model without
	// such a window.
	WindowTokens int64
}

// Model is a model that may serve a request, and what the request may use of it.
type Model struct {
	*catalog.Model
	Bounds admission.Bounds
}

// Result is the outcome of a request's last model attempt, or of all its prompts together.
type Result struct {
	// Err is nil when the answer was served to its end.
	Err error
	// Held reports whether a hold was made, or may have been.
	Held bool
	// Committed is the number of the attempt whose answer was relayed, or whose prompt is billed although
	// the client left; 0 for none.
	Committed uint32
	// Served is the candidate of that attempt.
	Served   *routerv1.Candidate
	Attempts []*billingv1.AttemptRecord
	Route    *eventsv1.Route
	// Tokens and Bytes count what was relayed.
	Tokens, Bytes int64
	// Lapsed reports whether the hold was released before the answer was relayed.
	Lapsed bool
	// Usage is what is billed of a served answer.
	Usage *hubv1.DispatchFinished
	// FirstContent is the time from receipt to the first content; 0 when there was none.
	FirstContent time.Duration
	// Added is the part of FirstContent for which the hub did not wait for the provider: what the marketplace
	// added to the first content of a stream. It is 0 where the hub did not say how long the provider took.
	Added time.Duration
}

// modelAttempt is a request on one of its models, or one of its prompts. For every service behind the gateway
// it is a request of its own.
type modelAttempt struct {
	runner *Runner
	req    *Request
	client context.Context // the client's: it tells a client that left from a time that ran out
	ctx    context.Context // the same within the request's whole time; set by start
	cancel context.CancelFunc
	budget

	id         string
	at         int     // among the request's models
	of         *Prompt // of the request, which holds the body of its first model
	sent       openaiapi.Sent
	asks       admission.Request
	answer     rewrite.Spec
	admittedAt time.Time // when admission was asked for
	grant      admission.Grant
	lease      *Lease         // nil until admitted
	merge      *rewrite.Merge // nil for a request with one prompt
	part       int            // of merge

	candidates []*routerv1.Candidate
	passed     []*routerv1.RejectCount // what the router passed over for the candidates; nil once it is reported
	tried      []string
	failures   []verdict
	alive      *keepAlive // nil for a whole answer
	over       bool       // the time is over or the client cannot be written to: no further model is tried

	out           output
	tokensFlushed int64
	contentAt     time.Time     // when the first content came; zero for none
	reading       time.Duration // how long the client took to read
	refused       *Served       // whose engine refused the request
	result        Result
}

// routeOf returns the route of a request before its first attempt.
func routeOf(pin admission.Pin) *eventsv1.Route {
	if pin.ProviderID == "" {
		return &eventsv1.Route{Mode: eventsv1.RouteMode_ROUTE_MODE_AUTO}
	}
	return &eventsv1.Route{Mode: eventsv1.RouteMode_ROUTE_MODE_EXPLICIT, RequestedProviderId: pin.ProviderID}
}
