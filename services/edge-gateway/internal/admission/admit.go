// Package admission lets a checked request in: billing-ledger holds its money while
// the router looks for providers, both at once.
//
// A request may be refused by both; the public order of errors decides which
// refusal the client sees. Whenever a hold may have been made and the request
// does not run, Grant.Held says so and the caller concludes the request, which
// releases the hold.
package admission

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
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
	// Report tells billing-ledger of the requests that have ended here, and
	// returns when it knows; nil leaves that to others.
	Report func(context.Context)
}

// Order is what a request needs.
type Order struct {
	RequestID string
	KeyID     string
	ModelID   string
	// AccountTag is how routers and hubs know whose request it is.
	AccountTag []byte
	// PromptTokens is the estimate without margin, in the unit of the model's
	// prices: of audio the exact milliseconds, of images 0.
	PromptTokens int64
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
	// Held tells that there may be a hold.
	Held bool
}

// Gate admits requests.
type Gate struct {
	admission billingv1.AdmissionServiceClient
	router    routerv1.RouterServiceClient
	giveBack  func(context.Context, *eventsv1.Attempt)
	cfg       Config
	places    places
}

// NewGate makes a gate. giveBack tells routers of an attempt that they booked
// a slot for and that never began; it does not wait.
func NewGate(admission billingv1.AdmissionServiceClient, router routerv1.RouterServiceClient,
	giveBack func(context.Context, *eventsv1.Attempt), cfg Config) *Gate {
	return &Gate{admission: admission, router: router, giveBack: giveBack, cfg: cfg}
}

type selection struct {
	resp *routerv1.SelectResponse
	err  error
}

// Enter admits an order and selects its candidates. Even with an error the
// grant holds what is known.
func (g *Gate) Enter(ctx context.Context, o Order) (Grant, error) {
	selectCtx, cancel := context.WithTimeout(ctx, g.cfg.SelectTimeout)
	defer cancel()
	selected := make(chan selection, 1)
	go func() {
		resp, err := g.router.Select(selectCtx, g.selectRequest(o, o.Pin.ProviderID, nil))
		selected <- selection{resp, err}
	}()
	terms, admitErr := g.admitWhenEnded(ctx, o)
	if admitErr != nil {
		grace := time.AfterFunc(g.cfg.SelectGrace, cancel)
		defer grace.Stop()
	}
	s := <-selected
	grant := Grant{Terms: terms, Held: admitErr == nil || uncertain(admitErr)}
	if admitErr == nil {
		admitErr = o.Prefer.afford(terms)
	}
	if err := first(apierror.OfPeer(admitErr), inOurWords(s.err, o)); err != nil {
		g.Unbook(ctx, o, s.resp.GetCandidates())
		return grant, err
	}
	return granted(grant, s.resp, nil)
}

// Unbook gives back the slot that Select booked on the first of these candidates
// for an order that does not run, so that a flood of refused requests makes no
// provider look busy.
func (g *Gate) Unbook(ctx context.Context, o Order, candidates []*routerv1.Candidate) {
	if len(candidates) == 0 {
		return
	}
	c := candidates[0]
	g.giveBack(ctx, &eventsv1.Attempt{
		RequestId: o.RequestID, ModelId: o.ModelID,
		ProviderId: c.GetProviderId(), NodeId: c.GetNodeId(), Epoch: c.GetEpoch(),
		Outcome: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED,
	})
}

func (g *Gate) admit(ctx context.Context, o Order) (*billingv1.AdmitResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.AdmitTimeout)
	defer cancel()
	return g.admission.Admit(ctx, &billingv1.AdmitRequest{
		RequestId:           o.RequestID,
		KeyId:               o.KeyID,
		ModelId:             o.ModelID,
		PromptTokens:        o.Bounds.HoldPromptTokens,
		MaxCompletionTokens: o.Bounds.HoldCompletionTokens,
		Pinned:              o.Pin.ProviderID != "" || o.Prefer.names(),
	})
}

// Again asks for further candidates, none of those that have failed. A pin has
// had its turn by then.
func (g *Gate) Again(ctx context.Context, o Order, failed []string) ([]*routerv1.Candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.SelectTimeout)
	defer cancel()
	resp, err := g.router.Select(ctx, g.selectRequest(o, "", failed))
	return resp.GetCandidates(), err
}

func (g *Gate) selectRequest(o Order, pin string, failed []string) *routerv1.SelectRequest {
	return &routerv1.SelectRequest{
		RequestId:            o.RequestID,
		ModelId:              o.ModelID,
		AccountTag:           o.AccountTag,
		PromptTokens:         o.WindowTokens,
		ExplicitMaxTokens:    o.ExplicitMaxTokens,
		BodyBytes:            o.BodyBytes,
		RequiredCapabilities: o.Capabilities,
		PinnedProviderId:     pin,
		AllowFallbacks:       o.Pin.AllowFallbacks,
		NearHubId:            g.cfg.NearHubID,
		ExcludeProviderIds:   failed,
		Preferences:          o.Prefer.toProto(),
	}
}

// uncertain reports whether a hold may exist although Admit failed: its answer
// may have been lost on the way.
func uncertain(err error) bool {
	f, ok := fault.As(err)
	if !ok {
		return true
	}
	switch f.Kind {
	case fault.Internal, fault.Timeout, fault.Canceled, fault.Unavailable:
		return true // concluding a request that has no hold changes nothing
	default:
		return false
	}
}

// inOurWords gives a refusal by the router the numbers that the client needs.
func inOurWords(err error, o Order) error {
	f, ok := fault.As(err)
	if !ok || f.Reason != fault.ContextLengthExceeded {
		return apierror.OfPeer(err)
	}
	window := f.Meta["max_context_length"]
	if _, err := strconv.ParseInt(window, 10, 64); err != nil {
		window = "unknown"
	}
	message := fmt.Sprintf("The largest context window online for this model is %s tokens. The prompt has about %d tokens", window, o.WindowTokens)
	if o.ExplicitMaxTokens > 0 {
		message += fmt.Sprintf(" and %s asks for %d", o.MaxTokensParam, o.ExplicitMaxTokens)
	}
	return fault.New(fault.Invalid, fault.ContextLengthExceeded, "%s.", message).On(o.PromptParam)
}

// order is the precedence of errors: what stands first is told first.
var order = []int{
	http.StatusRequestEntityTooLarge, http.StatusUnauthorized, http.StatusBadRequest, http.StatusNotFound,
	http.StatusForbidden, http.StatusPaymentRequired, http.StatusTooManyRequests,
}

// first gives the error that the client is told of two that may be nil.
func first(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil || rank(a) <= rank(b):
		return a
	}
	return b
}

func rank(err error) int {
	status := apierror.Of(err).Status
	for i, s := range order {
		if s == status {
			return i
		}
	}
	return len(order)
}
