// Package admission decides whether a checked request may run: billing-ledger holds its
// money while the router looks for providers, both at once.
//
// A request may be refused by both; the public order of errors decides which
// refusal the client sees. Whenever a hold may have been made and the request
// does not run, Grant.Held says so and the caller concludes the request, which
// releases the hold.
package admission

import (
	"context"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// Config bounds the two calls.
type Config struct {
	// AdmitTimeout bounds Admit, which goes on when the client leaves, so
	// that it is known whether there is a hold.
	AdmitTimeout time.Duration
	// SelectTimeout bounds Select, its own wait of 2 s for a slot included.
	SelectTimeout time.Duration
	// SelectGrace is how long a Select may still run once Admit has refused:
	// its refusal may take precedence.
	SelectGrace time.Duration
	// NearHubID is preferred among equals; empty for none.
	NearHubID string
	// FlushReports tells billing-ledger of the requests that have ended here, and
	// returns when billing-ledger knows; nil leaves that to others.
	FlushReports func(context.Context)
}

// Request is what a request needs to run.
type Request struct {
	ID      string
	KeyID   string
	ModelID string
	// AccountTag is how routers and hubs know whose request it is.
	AccountTag []byte
	// WindowTokens is what the model's context window has to hold at once; 0
	// when that is no question.
	WindowTokens int64
	// PromptParam names the parameter with the prompt, should it be too long.
	PromptParam string
	// ExplicitMaxTokens is 0 when the client did not say.
	ExplicitMaxTokens int64
	// MaxTokensParam names the parameter that ExplicitMaxTokens comes from.
	MaxTokensParam string
	Bounds         Bounds
	BodyBytes      int64
	Capabilities   []string
	Pin            Pin
	// Prefer is whom the client wants besides.
	Prefer Preferences
}

// Grant is leave to run.
type Grant struct {
	// Terms are billing-ledger's; nil when it did not admit.
	Terms      *billingv1.AdmitResponse
	Candidates []*routerv1.Candidate
	// Fallback is set when the pin could not be honoured.
	Fallback eventsv1.FallbackReason
	// UsualFirstContentMs is the model's usual time to first content at the prompt's
	// length; 0 when it is not known.
	UsualFirstContentMs int64
	// SingleAttempt says that the request gets one attempt, because too many of its
	// account have failed.
	SingleAttempt bool
	// Held reports whether there may be a hold.
	Held bool
}

// Admitter admits requests. It keeps no request beyond a call.
type Admitter struct {
	ledger      billingv1.AdmissionServiceClient
	router      routerv1.RouterServiceClient
	releaseSlot func(context.Context, *eventsv1.Attempt)
	cfg         Config
	places      places
}

// New makes an admitter. releaseSlot tells routers of an attempt that they booked
// a slot for and that never began; it does not wait.
func New(ledger billingv1.AdmissionServiceClient, router routerv1.RouterServiceClient,
	releaseSlot func(context.Context, *eventsv1.Attempt), cfg Config) *Admitter {
	return &Admitter{ledger: ledger, router: router, releaseSlot: releaseSlot, cfg: cfg}
}
