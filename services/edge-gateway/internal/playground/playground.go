// Package playground gives the pages of this site a few short chats an hour with a few
// models, without a key. An account of the platform pays for them. (Specification part 8:
// 5 requests an hour and IP address, not streamed.)
//
// billing-ledger counts the visits for all gateways, by the network that they come from
// (an IPv4 address, an IPv6 /64). It gets a hash of the network under a secret of the
// gateways, so that its tables name nobody. A request that is refused before admission
// costs no visit.
//
// Limits: Config.PerHour visits within any hour, MaxBody bytes of a body, MaxOutputTokens
// tokens of an answer.
package playground

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/pkg/address"
	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	// MaxOutputTokens bounds an answer.
	MaxOutputTokens = 100
	// MaxBody bounds a body in bytes: a page's chat without images.
	MaxBody = 64 << 10
	// MinSecret is the least length of a secret in bytes.
	MinSecret = 16

	window = time.Hour
)

// Config says which models are given away, how often, and who pays.
type Config struct {
	// Models are the ids of the models that may be asked.
	Models []string
	// APIKey is the consumer key of the account that pays.
	APIKey string
	// Secret is the secret under which networks are hashed; all gateways have the same.
	Secret string
	// PerHour is how many chats a network has within any hour.
	PerHour int
	// CallTimeout bounds one call to billing-ledger.
	CallTimeout time.Duration
}

// Playground serves all visitors of a gateway.
type Playground struct {
	visits billingv1.VisitorServiceClient
	cfg    Config
}

// New makes a playground.
func New(visits billingv1.VisitorServiceClient, cfg Config) *Playground {
	return &Playground{visits: visits, cfg: cfg}
}

// Models are the ids of the models that may be asked.
func (p *Playground) Models() []string { return p.cfg.Models }

// Offers reports whether visitors may ask a model.
func (p *Playground) Offers(modelID string) bool { return slices.Contains(p.cfg.Models, modelID) }

// Credentials returns headers with the key of the account that pays.
func (p *Playground) Credentials() http.Header {
	return http.Header{"Authorization": {"Bearer " + p.cfg.APIKey}}
}

// Left is what a visitor has left of its visits.
type Left struct {
	Limit, Remaining int
	// Reset is the time until the oldest visit no longer counts.
	Reset time.Duration
}

// Visit takes one of a client's visits. It fails with rate_limit_exceeded and the time to
// wait, or with the fault of a service that does not answer; then no visit is given.
func (p *Playground) Visit(ctx context.Context, client netip.Addr) (Left, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.CallTimeout)
	defer cancel()
	resp, err := p.visits.TakeVisit(ctx, &billingv1.TakeVisitRequest{
		Address: p.hash(client), Limit: int32(p.cfg.PerHour), WindowMs: window.Milliseconds(),
	})
	if f, ok := fault.As(err); ok && f.Reason == fault.RateLimitExceeded {
		return Left{Limit: p.cfg.PerHour, Reset: f.RetryAfter}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"The playground answers %s requests an hour. Sign up for a key to go on.",
			strconv.Itoa(p.cfg.PerHour)).After(f.RetryAfter)
	}
	if err != nil {
		return Left{}, apierror.OfPeer(err)
	}
	return Left{
		Limit: p.cfg.PerHour, Remaining: int(resp.GetRemaining()), Reset: time.Duration(resp.GetResetMs()) * time.Millisecond,
	}, nil
}

// hash returns the hash of a client's network. Connections without an address share one.
func (p *Playground) hash(client netip.Addr) []byte {
	mac := hmac.New(sha256.New, []byte(p.cfg.Secret))
	mac.Write([]byte(address.Network(client).String()))
	return mac.Sum(nil)
}
