// Package playground gives the pages of this site a few short chats an hour with a few
// models, without a key. (Specification part 8: 5 requests an hour and IP address, not
// streamed.)
//
// A visitor has a session, whose secret is in a cookie of the browser. The list of models
// opens the session, and a chat needs it. billing-ledger keeps the sessions and counts the
// visits for all gateways, by the network that they come from (an IPv4 address, an IPv6 /64), and by the wider
// one that a holder of IPv6 may have (a /48). It gets hashes: of the networks under a secret of the gateways,
// so that its tables name nobody, and of the session's secret. It also says which account of the platform
// pays. A request that is refused before admission costs no visit.
//
// Limits: Config.PerHour visits within any hour, Config.Lists lists of models, MaxBody bytes of a
// body, MaxOutputTokens tokens of an answer.
package playground

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/pkg/address"
	"svc.internal/pkg/clock"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/quota"
)

const (
	// MaxOutputTokens bounds an answer.
	MaxOutputTokens = 100
	// MaxBody bounds a body in bytes: a short chat without images. Longer prompts would empty the
	// day's budget of the platform with few visits.
	MaxBody = 16 << 10
	// MinSecret is the least length of a secret in bytes.
	MinSecret = 16

	window = time.Hour
)

// Config says which models are given away, and how often.
type Config struct {
	// Models are the ids of the models that may be asked.
	Models []string
	// Secret is the secret under which networks are hashed; all gateways have the same.
	Secret string
	// PerHour is how many chats a network has within any hour.
	PerHour int
	// Lists is how often a network may list the models, which opens sessions. Networks is how many
	// networks are remembered for it.
	Lists    quota.Rate
	Networks int
	// CallTimeout bounds one call to billing-ledger.
	CallTimeout time.Duration
}

// Playground serves all visitors of a gateway.
type Playground struct {
	visits billingv1.VisitorServiceClient
	random io.Reader
	clock  clock.Clock
	lists  *quota.Quota
	cfg    Config
}

// New makes a playground, with random numbers for the secrets of sessions.
func New(visits billingv1.VisitorServiceClient, random io.Reader, c clock.Clock, cfg Config) *Playground {
	lists := quota.New("lists of the playground's models", cfg.Lists, cfg.Networks)
	return &Playground{visits: visits, random: random, clock: c, lists: lists, cfg: cfg}
}

// Models are the ids of the models that may be asked.
func (p *Playground) Models() []string { return p.cfg.Models }

// Offers reports whether visitors may ask a model.
func (p *Playground) Offers(modelID string) bool { return slices.Contains(p.cfg.Models, modelID) }

// Left is what a visitor has left of its visits.
type Left struct {
	Limit, Remaining int
	// Reset is the time until the oldest visit no longer counts.
	Reset time.Duration
}

// Payer is the account and the key that pay for a visit.
type Payer struct {
	AccountID, KeyID string
	// AccountTag is the name under which routers and hubs know the account.
	AccountTag []byte
}

// CountList counts a list of the models for a client's network. It fails with rate_limit_exceeded, so
// that no network can keep billing-ledger busy with sessions.
func (p *Playground) CountList(client netip.Addr) error { return p.lists.Take(client, p.clock.Now()) }

// Open gives a client a session, unless the one in its cookie is live, and says what is left
// of its visits. The cookie is nil where the client's own stands. It fails with rate_limit_exceeded
// where the client's network has no room for a session, and with service_unavailable while nobody gets
// one; both say when to ask again.
func (p *Playground) Open(ctx context.Context, client netip.Addr, h http.Header) (*http.Cookie, Left, error) {
	secret := make([]byte, secretBytes)
	if _, err := io.ReadFull(p.random, secret); err != nil {
		return nil, Left{}, fmt.Errorf("make the secret of a session: %w", err)
	}
	sum := sha256.Sum256(secret)
	held, _ := sessionOf(h) // without one another is opened
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	resp, err := p.visits.OpenVisitorSession(ctx, &billingv1.OpenVisitorSessionRequest{
		Address: p.hash(client), WiderAddress: p.widerHash(client), SessionSha256: sum[:], HeldSessionSha256: held,
		Limit: int32(p.cfg.PerHour), WindowMs: window.Milliseconds(),
	})
	if f, ok := fault.As(err); ok && f.Reason == fault.RateLimitExceeded {
		return nil, Left{}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"Your network has no room for another playground session now.").After(f.RetryAfter)
	}
	if err != nil {
		return nil, Left{}, closed(err)
	}
	left := Left{p.cfg.PerHour, int(resp.GetRemaining()), time.Duration(resp.GetResetMs()) * time.Millisecond}
	if !resp.GetOpened() {
		return nil, left, nil
	}
	return cookie(secret, resp.GetExpiresAt().AsTime().Sub(p.clock.Now())), left, nil
}

// Visit takes one of a client's visits, and returns who pays for it. It fails with
// invalid_session, with rate_limit_exceeded and the time to wait, or with the fault of a
// service that does not answer; then no visit is given.
func (p *Playground) Visit(ctx context.Context, client netip.Addr, h http.Header) (Payer, Left, error) {
	held, err := sessionOf(h)
	if err != nil {
		return Payer{}, Left{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	resp, err := p.visits.TakeVisit(ctx, &billingv1.TakeVisitRequest{
		Address: p.hash(client), WiderAddress: p.widerHash(client), Limit: int32(p.cfg.PerHour),
		WindowMs: window.Milliseconds(), SessionSha256: held,
	})
	f, _ := fault.As(err)
	switch {
	case err == nil:
	case f != nil && f.Reason == fault.InvalidSession:
		return Payer{}, Left{}, NoSession()
	case f != nil && f.Reason == fault.RateLimitExceeded && f.Meta[limitName] != "":
		return Payer{}, Left{}, BudgetSpent(f.RetryAfter)
	case f != nil && f.Reason == fault.RateLimitExceeded && f.Meta[widerName] != "":
		return Payer{}, Left{Limit: p.cfg.PerHour, Reset: f.RetryAfter}, fault.New(fault.Exhausted,
			fault.RateLimitExceeded, "The networks around yours have used all of their playground requests of an hour. "+
				"Sign up for a key to go on.").After(f.RetryAfter)
	case f != nil && f.Reason == fault.RateLimitExceeded:
		return Payer{}, Left{Limit: p.cfg.PerHour, Reset: f.RetryAfter}, fault.New(fault.Exhausted,
			fault.RateLimitExceeded, "The playground answers %s requests an hour. Sign up for a key to go on.",
			strconv.Itoa(p.cfg.PerHour)).After(f.RetryAfter)
	default:
		return Payer{}, Left{}, closed(err)
	}
	if resp.GetKeyId() == "" {
		// An older billing-ledger counts visits, and does not say who pays.
		return Payer{}, Left{}, fault.New(fault.Unavailable, fault.ServiceUnavailable, closedText)
	}
	return Payer{resp.GetAccountId(), resp.GetKeyId(), resp.GetAccountTag()},
		Left{p.cfg.PerHour, int(resp.GetRemaining()), time.Duration(resp.GetResetMs()) * time.Millisecond}, nil
}

// What a refusal has in fault.Fault.Meta: limitName where it is about the budget of the day, and widerName where it
// is about the wider network.
const (
	limitName = "limit_name"
	widerName = "wider_network"
)

// BudgetSpent is the refusal once the platform's budget of the day is used up.
func BudgetSpent(until time.Duration) error {
	return apierror.NotSoon(fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"Today's playground budget is used up. It resets at midnight UTC. Sign up for a key to go on.").
		After(until))
}

const closedText = "The playground is closed for a while."

// closed is the refusal while nobody can pay for visitors.
func closed(err error) error {
	if f, ok := fault.As(err); ok && f.Kind == fault.Unavailable {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, closedText).
			After(f.RetryAfter)
	}
	return apierror.OfPeer(err)
}

// hash returns the hash of a client's network. Connections without an address share one.
func (p *Playground) hash(client netip.Addr) []byte { return p.hashOf(address.Network(client)) }

// widerBits are those of the network that one holder of IPv6 may have: most providers give a /48 or less.
const widerBits = 48

// widerHash returns the hash of the wider network of a client; nil for a client without one.
func (p *Playground) widerHash(client netip.Addr) []byte {
	if client = client.Unmap(); !client.Is6() {
		return nil
	}
	wider, err := client.WithZone("").Prefix(widerBits)
	if err != nil {
		return nil // no address of IPv6 is shorter
	}
	return p.hashOf(wider)
}

func (p *Playground) hashOf(network netip.Prefix) []byte {
	mac := hmac.New(sha256.New, []byte(p.cfg.Secret))
	mac.Write([]byte(network.String()))
	return mac.Sum(nil)
}
