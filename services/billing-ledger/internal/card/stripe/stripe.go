// Package stripe is the card processor Stripe, by its API. It is the only package that knows the
// processor's own client.
//
// What was said when a page was made stands in the metadata of the session and of its payment, or
// of its subscription, so that what is fetched later says whose it is. Each page and each refund is
// made under an idempotency key; a refund is also looked for by the key in its metadata, because
// the processor forgets idempotency keys.
//
// Errors name what was asked, a status, a code and the processor's request, and never its message:
// messages may repeat parts of keys and cards.
//
// Limits: Timeout for a call, maxAnswer bytes of an answer, page objects of a list, and maxOfPayment
// refunds and disputes of a payment. A call is made once; the caller repeats it.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"svc.internal/services/billing-ledger/internal/card"
)

// Name is the processor's name.
const Name = "stripe"

// DefaultURL is where the API is.
const DefaultURL = "https://api.stripe.com"

const (
	// Timeout bounds a call.
	Timeout = 8 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 4 << 20
	// page is how many objects a page of a list has, and maxOfPayment how many refunds or disputes
	// of one payment are read.
	page         = 100
	maxOfPayment = 1000
)

// The names in metadata.
const (
	ofCheckout = "checkout"
	ofPurpose  = "purpose"
	ofProvider = "provider"
	ofAccount  = "account"
	ofPlan     = "plan"
	ofKey      = "refund_key"
)

// Processor is the card processor.
type Processor struct {
	client   *sdk.Client
	livemode bool
}

var _ card.Processor = (*Processor)(nil)

// New makes a processor of an API key, at a URL without a path. The key is a restricted key (rk_),
// or in test mode also a secret one.
func New(key, at string) (*Processor, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	backend := sdk.GetBackendWithConfig(sdk.APIBackend, &sdk.BackendConfig{
		URL: sdk.String(strings.TrimRight(at, "/")), MaxNetworkRetries: sdk.Int64(0), EnableTelemetry: sdk.Bool(false),
		LeveledLogger: &sdk.LeveledLogger{Level: sdk.LevelNull},
		HTTPClient: &http.Client{Timeout: Timeout, Transport: bounded{http.DefaultTransport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	return &Processor{
		client:   sdk.NewClient(key, sdk.WithBackends(&sdk.Backends{API: backend, Connect: backend, Uploads: backend})),
		livemode: strings.Contains(key, "_live_"),
	}, nil
}

// CheckKey says what is wrong with an API key. Its text never has the key.
func CheckKey(key string) error {
	for _, kind := range []string{"rk_live_", "rk_test_", "sk_test_"} {
		if rest, ok := strings.CutPrefix(key, kind); ok && len(rest) >= 8 {
			return nil
		}
	}
	return errors.New("it is no restricted key (rk_live_ or rk_test_)")
}

// CheckURL says what is wrong with the address of the API. It is https, or http on this machine.
func CheckURL(at string) error {
	u, err := url.Parse(at)
	local := err == nil && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost" || u.Hostname() == "::1")
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return errors.New("it must be https without a path")
	}
	return nil
}

// bounded bounds the bodies of answers.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = limited{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

type limited struct {
	io.Reader
	io.Closer
}

// Name implements card.Processor.
func (p *Processor) Name() string { return Name }

// Livemode implements card.Processor.
func (p *Processor) Livemode() bool { return p.livemode }

// failed says what of a call failed. What the processor does not know is card.ErrNoObject.
func failed(doing string, err error) error {
	var e *sdk.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return fmt.Errorf("%s: %w", doing, withoutURL(err))
	case e.HTTPStatusCode == http.StatusNotFound || e.Code == sdk.ErrorCodeResourceMissing:
		return fmt.Errorf("%s: %w", doing, card.ErrNoObject)
	}
	return fmt.Errorf("%s: status %d, %.40s %.60s, request %.60s", doing, e.HTTPStatusCode, e.Type, e.Code, e.RequestID)
}

// withoutURL is the cause of an error of the network, without the address, in which parameters stand.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return errors.New("the card processor's answer cannot be read")
}

// metadata is what stands in the metadata of what is made for a checkout.
func metadata(c card.Checkout) map[string]string {
	m := map[string]string{ofCheckout: c.ID.String(), ofPurpose: string(c.Purpose)}
	if !c.Provider.IsZero() {
		m[ofProvider] = c.Provider.String()
	}
	if !c.Account.IsZero() {
		m[ofAccount] = c.Account.String()
	}
	if c.Plan != "" {
		m[ofPlan] = c.Plan
	}
	return m
}

// CreateSession implements card.Processor. A repeat has the same contents, as the processor wants
// of a repeated idempotency key: the page's end is that of the checkout.
func (p *Processor) CreateSession(ctx context.Context, o card.Order) (card.Session, error) {
	c := o.Checkout
	price := &sdk.CheckoutSessionCreateLineItemPriceDataParams{
		Currency: sdk.String(card.Currency), UnitAmount: sdk.Int64(int64(c.Total())),
		ProductData: &sdk.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: sdk.String(o.Description)},
	}
	params := &sdk.CheckoutSessionCreateParams{
		Mode: sdk.String(string(sdk.CheckoutSessionModePayment)), SuccessURL: sdk.String(c.ReturnURL),
		CancelURL: sdk.String(c.ReturnURL), ExpiresAt: sdk.Int64(c.Expires.Unix()), Metadata: metadata(c),
		PaymentMethodTypes: []*string{sdk.String("card")},
		LineItems:          []*sdk.CheckoutSessionCreateLineItemParams{{PriceData: price, Quantity: sdk.Int64(1)}},
	}
	if c.Purpose == card.PlanPurpose {
		params.Mode = sdk.String(string(sdk.CheckoutSessionModeSubscription))
		price.Recurring = &sdk.CheckoutSessionCreateLineItemPriceDataRecurringParams{Interval: sdk.String("month")}
		params.SubscriptionData = &sdk.CheckoutSessionCreateSubscriptionDataParams{Metadata: metadata(c)}
	} else {
		params.PaymentIntentData = &sdk.CheckoutSessionCreatePaymentIntentDataParams{Metadata: metadata(c)}
	}
	params.SetIdempotencyKey("checkout-" + c.ID.String())
	made, err := p.client.V1CheckoutSessions.Create(ctx, params)
	if err != nil {
		return card.Session{}, failed("make a page", err)
	}
	return sessionOf(made), nil
}

// FetchSession implements card.Processor.
func (p *Processor) FetchSession(ctx context.Context, id string) (card.Session, error) {
	params := &sdk.CheckoutSessionRetrieveParams{}
	params.AddExpand("payment_intent.latest_charge.balance_transaction")
	found, err := p.client.V1CheckoutSessions.Retrieve(ctx, url.PathEscape(id), params)
	if err != nil {
		return card.Session{}, failed("fetch a page", err)
	}
	return sessionOf(found), nil
}

// sessionOf is a session as this service knows it. It is paid once its payment has its balance
// transaction.
func sessionOf(s *sdk.CheckoutSession) card.Session {
	out := card.Session{
		ID: s.ID, URL: s.URL, Checkout: s.Metadata[ofCheckout], Purpose: s.Metadata[ofPurpose],
		Provider: s.Metadata[ofProvider], Account: s.Metadata[ofAccount], Plan: s.Metadata[ofPlan],
		Total: card.Cents(s.AmountTotal), Currency: string(s.Currency), Livemode: s.Livemode, State: card.SessionOpen,
		Expires: time.Unix(s.ExpiresAt, 0).UTC(),
	}
	if out.URL == "" { // it can no longer be paid there
		out.URL = "https://checkout.stripe.com/"
	}
	complete := s.Status == sdk.CheckoutSessionStatusComplete && s.PaymentStatus == sdk.CheckoutSessionPaymentStatusPaid
	switch {
	case s.Status == sdk.CheckoutSessionStatusExpired:
		out.State = card.SessionExpired
	case complete && s.Mode == sdk.CheckoutSessionModeSubscription && s.Subscription != nil:
		out.State, out.Subscription = card.SessionPaid, s.Subscription.ID
	case complete && s.Mode == sdk.CheckoutSessionModePayment:
		if charge, final := chargeOf(s.PaymentIntent); final {
			out.State, out.Charge = card.SessionPaid, charge
		}
	}
	return out
}

// chargeOf is what a payment charged; final is false without a balance transaction.
func chargeOf(pi *sdk.PaymentIntent) (charge card.Charge, final bool) {
	if pi == nil || pi.Status != sdk.PaymentIntentStatusSucceeded || pi.LatestCharge == nil ||
		pi.LatestCharge.BalanceTransaction == nil || pi.LatestCharge.BalanceTransaction.ID == "" {
		return card.Charge{}, false
	}
	c := pi.LatestCharge
	charge = card.Charge{PaymentID: pi.ID, CostID: c.BalanceTransaction.ID, Total: card.Cents(c.AmountCaptured),
		Cost: card.Cents(c.BalanceTransaction.Fee)}
	if c.PaymentMethodDetails != nil && c.PaymentMethodDetails.Card != nil {
		charge.Fingerprint = c.PaymentMethodDetails.Card.Fingerprint
	}
	return charge, true
}
