package billingledger

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"svc.internal/pkg/config"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/sandbox"
	"svc.internal/services/billing-ledger/internal/card/stripe"
)

// CardConfig says how cards are charged.
type CardConfig struct {
	// Processor is the card processor: stripe, or sandbox, in which no money moves; what is paid
	// there is marked (livemode is false).
	Processor string `yaml:"processor" env:"SVC_CARD_PROCESSOR"`
	// WebhookSecret proves what the card processor sends, with at least 16 bytes. While it
	// is replaced, the one before counts too. The sandbox, which sends to itself, may have
	// none: then the secret follows from the ledger's own.
	WebhookSecret         config.Secret `yaml:"webhook_secret" env:"SVC_CARD_WEBHOOK_SECRET"`
	PreviousWebhookSecret config.Secret `yaml:"previous_webhook_secret" env:"SVC_CARD_PREVIOUS_WEBHOOK_SECRET"`
	// StripeKey is the restricted API key of Stripe: rk_live_ or rk_test_. It reads sessions, payments,
	// disputes, invoices and events, and writes sessions, refunds and subscriptions.
	StripeKey config.Secret `yaml:"stripe_key" env:"SVC_CARD_STRIPE_KEY"`
	// StripeURL is where Stripe's API is: https without a path, or http on this machine.
	StripeURL string `yaml:"stripe_url" env:"SVC_CARD_STRIPE_URL"`
	// SandboxURL is where people and the sandbox reach the public API: http or https, without
	// a path.
	SandboxURL string `yaml:"sandbox_url" env:"SVC_CARD_SANDBOX_URL"`
	// ReturnURL is where a page leads after a consumer has paid, unless the consumer says where: https, or
	// http in the sandbox.
	ReturnURL string `yaml:"return_url" env:"SVC_CARD_RETURN_URL"`
	// FixedCents and BasisPoints are what the card processor keeps of a payment: so many US
	// cents, and so much of the whole.
	FixedCents  int64 `yaml:"fixed_cents" env:"SVC_CARD_FIXED_CENTS"`
	BasisPoints int64 `yaml:"basis_points" env:"SVC_CARD_BASIS_POINTS"`
}

// defaultCardConfig is the sandbox beside a gateway on this machine, with the usual
// tariff.
func defaultCardConfig() CardConfig {
	return CardConfig{Processor: sandbox.Name, SandboxURL: "http://127.0.0.1:8080", FixedCents: 30, BasisPoints: 290,
		ReturnURL: "http://127.0.0.1:8080/", StripeURL: stripe.DefaultURL}
}

// MovesMoney reports whether what is paid by card is real money.
func (c CardConfig) MovesMoney() bool {
	return c.Processor != sandbox.Name && strings.Contains(c.StripeKey.Reveal(), "_live_")
}

func (c CardConfig) tariff() card.Tariff {
	return card.Tariff{Fixed: card.Cents(c.FixedCents), BasisPoints: c.BasisPoints}
}

// keys returns the secrets of webhooks. own is the ledger's own, for the sandbox.
func (c CardConfig) keys(own []byte) (card.Keys, error) {
	var secrets []string
	switch {
	case c.WebhookSecret.IsSet():
		secrets = append(secrets, c.WebhookSecret.Reveal())
	case c.Processor == sandbox.Name:
		secrets = append(secrets, string(own))
	}
	if c.PreviousWebhookSecret.IsSet() {
		secrets = append(secrets, c.PreviousWebhookSecret.Reveal())
	}
	return card.NewKeys(secrets...)
}

// Validate returns every fault at once.
func (c CardConfig) Validate() error {
	var faults []error
	switch c.Processor {
	case sandbox.Name:
	case stripe.Name:
		if err := stripe.CheckKey(c.StripeKey.Reveal()); err != nil {
			faults = append(faults, fmt.Errorf("card.stripe_key (SVC_CARD_STRIPE_KEY): %w", err))
		}
		if err := stripe.CheckURL(c.StripeURL); err != nil {
			faults = append(faults, fmt.Errorf("card.stripe_url (SVC_CARD_STRIPE_URL): %w", err))
		}
	default:
		faults = append(faults, fmt.Errorf("card.processor (SVC_CARD_PROCESSOR): %.40q is neither %s nor %s", c.Processor,
			sandbox.Name, stripe.Name))
	}
	if c.PreviousWebhookSecret.IsSet() && !c.WebhookSecret.IsSet() {
		faults = append(faults, errors.New("card.webhook_secret (SVC_CARD_WEBHOOK_SECRET) is missing beside the one before"))
	}
	if _, err := c.keys(make([]byte, card.MinSecret)); err != nil {
		faults = append(faults, fmt.Errorf("card.webhook_secret (SVC_CARD_WEBHOOK_SECRET): %w", err))
	}
	if to, err := url.Parse(c.SandboxURL); err != nil || to.Host == "" || to.User != nil || to.RawQuery != "" ||
		strings.Trim(to.Path, "/") != "" || to.Scheme != "http" && to.Scheme != "https" {
		faults = append(faults, errors.New("card.sandbox_url (SVC_CARD_SANDBOX_URL) must be http or https, without a path"))
	}
	if to, err := url.Parse(c.ReturnURL); err != nil || to.Host == "" || to.User != nil || len(c.ReturnURL) > 1024 ||
		to.Scheme != "https" && (c.MovesMoney() || to.Scheme != "http") {
		faults = append(faults, errors.New("card.return_url (SVC_CARD_RETURN_URL) must be https, or http in the sandbox"))
	}
	if !c.tariff().Valid() {
		faults = append(faults, errors.New("card.fixed_cents must be 0 to 10000, and card.basis_points 0 to 4999"))
	}
	return errors.Join(faults...)
}
