// Package cardapi is where card processors and payers call: POST /webhooks/card takes what
// a card processor sends, and GET and POST /sandbox/checkout/{session} are the pages of the
// sandbox, in which no money moves. Where billing-ledger has another card processor it says
// that there are no such routes.
//
// None of them has a key. A webhook is proved by its signature, which billing-ledger
// verifies over the bytes as they came; a page is opened by whoever knows its session. So
// wrong signatures and unknown sessions are guesses, and a network may make so many a
// minute. What is right is never counted, so that a card processor is not refused.
//
// Limits: MaxWebhook bytes of an event, MaxForm of a form.
package cardapi

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/auth"
)

const (
	// MaxWebhook bounds the body of a webhook, in bytes.
	MaxWebhook = 256 << 10
	// MaxForm bounds the body of a form, in bytes.
	MaxForm = 1 << 10
	// maxSession bounds the id of a session, in bytes.
	maxSession = 255
	// SignatureHeader has the signature of a webhook of the sandbox.
	SignatureHeader = "X-Svc-Signature"
	// StripeHeader has the signature of a webhook of Stripe.
	StripeHeader = "Stripe-Signature"
)

// Peers are the services that answer.
type Peers struct {
	Webhooks billingv1.CardWebhookServiceClient
	Sandbox  billingv1.CardSandboxServiceClient
	Clock    clock.Clock
}

// Config bounds guesses.
type Config struct {
	// Guesses is how many a network may make in a minute, Networks how many networks are
	// remembered, and Timeout how long billing-ledger may take.
	Guesses, Networks int
	Timeout           time.Duration
}

// API answers the routes.
type API struct {
	peers   Peers
	cfg     Config
	guesses *auth.Guesses
}

// New makes the API.
func New(peers Peers, cfg Config) *API {
	return &API{peers: peers, cfg: cfg, guesses: auth.NewGuesses(auth.GuessConfig{
		Rate: cfg.Guesses, Networks: cfg.Networks, Clock: peers.Clock,
		Wrong:   []fault.Reason{fault.InvalidSignature, fault.SessionNotFound},
		Refusal: "Too many wrong calls came from your address.",
	})}
}

// guess does something that a caller may be guessing at.
func (a *API) guess(ctx context.Context, from netip.Addr, do func(context.Context) error) error {
	return a.guesses.LookUp(from, false, func() error {
		ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
		defer cancel()
		return do(ctx)
	})
}

// Receive hands an event over, and returns once billing-ledger has stored it.
func (a *API) Receive(ctx context.Context, from netip.Addr, header http.Header, body []byte) error {
	return a.guess(ctx, from, func(ctx context.Context) error {
		ours, stripes := header.Values(SignatureHeader), header.Values(StripeHeader)
		if len(ours)+len(stripes) != 1 {
			return fault.New(fault.Invalid, fault.InvalidSignature, "%s must stand once.", SignatureHeader).On(SignatureHeader)
		}
		req := &billingv1.ReceiveRequest{Body: body, Signature: append(ours, stripes...)[0], Processor: "sandbox"}
		if len(stripes) == 1 {
			req.Processor = "stripe"
		}
		_, err := a.peers.Webhooks.Receive(ctx, req)
		return err
	})
}

// Page renders the page of a session, whose id is escaped as in a path.
func (a *API) Page(ctx context.Context, from netip.Addr, escaped string) ([]byte, error) {
	id, err := sessionID(escaped)
	if err != nil {
		return nil, err
	}
	var found *billingv1.SandboxSession
	err = a.guess(ctx, from, func(ctx context.Context) error {
		resp, err := a.peers.Sandbox.GetSandboxSession(ctx, &billingv1.GetSandboxSessionRequest{SessionId: id})
		found = resp.GetSession()
		return err
	})
	if err != nil {
		return nil, err
	}
	return render(found)
}

// actions are the values of the field action.
var actions = map[string]billingv1.SandboxAction{
	"pay":        billingv1.SandboxAction_SANDBOX_ACTION_PAY,
	"decline":    billingv1.SandboxAction_SANDBOX_ACTION_DECLINE,
	"chargeback": billingv1.SandboxAction_SANDBOX_ACTION_CHARGE_BACK,
	"win":        billingv1.SandboxAction_SANDBOX_ACTION_WIN_DISPUTE,
	"lose":       billingv1.SandboxAction_SANDBOX_ACTION_LOSE_DISPUTE,
	"failrefund": billingv1.SandboxAction_SANDBOX_ACTION_FAIL_REFUND,
	"month":      billingv1.SandboxAction_SANDBOX_ACTION_MONTH,
	"declines":   billingv1.SandboxAction_SANDBOX_ACTION_DECLINES,
	"accepts":    billingv1.SandboxAction_SANDBOX_ACTION_ACCEPTS,
	"quit":       billingv1.SandboxAction_SANDBOX_ACTION_QUIT,
}

// Press presses a button of a page. What the page's state forbids is no error, because the
// page that follows shows that state.
func (a *API) Press(ctx context.Context, from netip.Addr, escaped string, form []byte) error {
	id, err := sessionID(escaped)
	if err != nil {
		return err
	}
	fields, err := url.ParseQuery(string(form))
	action, known := actions[fields.Get("action")]
	if err != nil || !known {
		return fault.New(fault.Invalid, fault.InvalidValue,
			"action must be pay, decline, chargeback, win, lose, failrefund, month, declines, accepts or quit.").On("action")
	}
	err = a.guess(ctx, from, func(ctx context.Context) error {
		_, err := a.peers.Sandbox.ActOnSandboxSession(ctx,
			&billingv1.ActOnSandboxSessionRequest{SessionId: id, Action: action})
		return err
	})
	if fault.Is(err, fault.TransitionNotAllowed) {
		return nil
	}
	return err
}

// sessionID reads the id of a session: 1 to 255 letters, digits and underscores.
func sessionID(escaped string) (string, error) {
	if len(escaped) > maxSession {
		return "", noSession()
	}
	for _, c := range []byte(escaped) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return "", noSession()
		}
	}
	return escaped, nil
}

func noSession() error {
	return fault.New(fault.NotFound, fault.SessionNotFound, "There is no such page.")
}
