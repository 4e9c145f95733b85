// Package admission decides whether a checked request may run: billing-ledger holds its
// money, and the router finds providers. Both are asked at once, or one after the other where the
// router shares the process.
//
// Both may refuse a request. The public order of errors decides which refusal the client
// gets. When a hold may have been made and the request does not run, Grant.Held says so.
// The caller then reports the request, which releases the hold.
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
	// AdmitTimeout bounds Admit, which continues when the client leaves, so that it is
	// known whether there is a hold.
	AdmitTimeout time.Duration
	// SelectTimeout bounds Select, with the router's own wait of 2 s for a slot.
	SelectTimeout time.Duration
	// SelectGrace is how long a Select may still run once Admit has refused, because the
	// router's refusal may take precedence.
	SelectGrace time.Duration
	// RouterInProcess reports whether the router answers in this process.
	RouterInProcess bool
	// NearHubID is preferred among equals; empty for none.
	NearHubID string
	// FlushReports sends billing-ledger the reports of the requests that have ended here,
	// and returns when billing-ledger has them; nil leaves that to others.
	FlushReports func(context.Context)
	// Ledger finds the client of the replica of billing-ledger at an address, and returns false where that
	// replica is not connected; nil asks any replica.
	Ledger func(address string) (billingv1.AdmissionServiceClient, bool)
}

// Request is what admission needs to know of a request.
type Request struct {
	ID      string
	KeyID   string
	ModelID string
	// AccountTag is the name under which routers and hubs know the account.
	AccountTag []byte
	// Priority lets the request wait ahead of others for a provider. It is as the key's owner had
	// it when the key was looked up; admission says it again.
	Priority bool
	// WindowTokens is how many tokens the model's context window must hold at once; 0 for
	// a model without such a window.
	WindowTokens int64
	// PromptParam names the parameter of the prompt, for the error when it is too long.
	PromptParam string
	// ExplicitMaxTokens is 0 when the client gave no bound.
	ExplicitMaxTokens int64
	// MaxTokensParam names the parameter that ExplicitMaxTokens comes from.
	MaxTokensParam string
	Bounds         Bounds
	BodyBytes      int64
	Capabilities   []string
	Pin            Pin
	// Prefer is the client's wishes about providers, beside the pin.
	Prefer Preferences
	// Claimed reports whether the request is under a claim of its client's (package idempotency).
	// Its hold is written before it begins, because the ledger decides by holds what a repeat of a
	// request gets whose claim has lapsed.
	Claimed bool
}

// Grant is leave to run.
type Grant struct {
	// Terms are billing-ledger's; nil when it did not admit.
	Terms      *billingv1.AdmitResponse
	Candidates []*routerv1.Candidate
	// PassedOver is what the router passed over for the candidates.
	PassedOver []*routerv1.RejectCount
	// Fallback is set when the pin could not be honoured.
	Fallback eventsv1.FallbackReason
	// UsualFirstContentMs is the model's usual time to first content at the prompt's
	// length; 0 when it is unknown.
	UsualFirstContentMs int64
	// SingleAttempt reports whether the request gets one attempt only, because too many
	// requests of its account have failed.
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
	owners      owners
}

// New makes an admitter. releaseSlot reports to routers an attempt for which they booked
// a slot and that never began; it does not wait.
func New(ledger billingv1.AdmissionServiceClient, router routerv1.RouterServiceClient,
	releaseSlot func(context.Context, *eventsv1.Attempt), cfg Config) *Admitter {
	return &Admitter{ledger: ledger, router: router, releaseSlot: releaseSlot, cfg: cfg}
}
