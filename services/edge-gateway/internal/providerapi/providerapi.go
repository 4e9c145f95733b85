// Package providerapi answers what provider agents ask over HTTP: where their
// account stands, what they change in it, what the market wants, and the plain
// sign-up of users who become providers.
//
// The paths, members and statuses are those that agents in the field know, which
// cannot be changed any more. The most fragile of them is the status call: an agent
// asks it once, before it connects, and takes any JSON without api_key_valid:true
// for a verdict that lasts until a human restarts it. So only a key that is really
// wrong is told in JSON; whatever else fails is plain text, and for ten minutes the
// last good answer stands in for a hub that does not answer.
//
// Provider keys and sessions travel on as SHA-256 digests. Wrong ones are bounded
// for each address together with wrong consumer keys (package auth); what anyone may
// call is bounded for each address here, by each gateway for itself.
//
// Limits: MaxBody bytes of a body, 32 members in it; Config.Kept keys and sessions
// remembered, with answers of Config.KeptBytes; Config.Networks addresses counted for
// each kind of call; 1,000 models of the demand, at most Config.DemandKept old.
package providerapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/auth"
)

// MaxBody bounds a body in bytes.
const MaxBody = 64 << 10

// Peers are what the calls are answered from.
type Peers struct {
	Self   hubv1.ProviderSelfServiceClient
	Users  billingv1.UserServiceClient
	Demand billingv1.DemandServiceClient
	Models catalogv1.PublicCatalogServiceClient
	Router routerv1.RouterServiceClient
	// Auth bounds how many wrong keys and sessions an address may try.
	Auth  *auth.Authenticator
	Clock clock.Clock
}

// Config bounds the calls.
type Config struct {
	// CallTimeout bounds one call to a peer, ExplainTimeout that to a router, which
	// a provider's status goes without.
	CallTimeout, ExplainTimeout time.Duration
	// Kept is how many provider keys, and as many sessions, are known for good. The
	// last answers to the keys' status calls are kept for KeptFor, in at most KeptBytes
	// together.
	Kept, KeptBytes int
	KeptFor         time.Duration
	// DemandFor is how long the demand is taken for fresh, DemandKept for how long it
	// is given when it cannot be had anew.
	DemandFor, DemandKept time.Duration
	// Networks is how many addresses are counted for each kind of call.
	Networks int
	// SignUps bounds accounts opened (of users, of providers, and by users who become
	// providers), Keys keys that users have made, LogIns passwords tried and Challenges
	// wallets' challenges, each for one address.
	SignUps, Keys, LogIns, Challenges Rate
	// Chains are the chains that take collateral; CardCollateral tells that cards are
	// taken too.
	Chains         []Chain
	CardCollateral bool
}

// Call is one request, its body read.
type Call struct {
	Method string
	Header http.Header
	Query  url.Values
	// Rest is the variable part of the path, still escaped.
	Rest string
	Body []byte
	// Unread is why the body is not there, which is told once the caller is known.
	Unread error
	From   netip.Addr
}

// Answer is what the caller gets.
type Answer struct {
	Status int
	// Header is set besides the content's type and length; nil for nothing.
	Header http.Header
	// JSON is the body.
	JSON []byte
}

// API answers calls. Their errors are the caller's to answer.
type API struct {
	peers Peers
	cfg   Config

	kept       *answerCache // provider keys
	sessions   *answerCache // without answers
	signUps    *quota       // of providers
	userSigns  *quota
	upgrades   *quota
	keys       *quota
	logIns     *quota
	challenges *quota
	demand     *demand
	contract   []byte
}

// New makes the API.
func New(peers Peers, cfg Config) (*API, error) {
	contract, err := contractJSON(cfg.Chains, cfg.CardCollateral)
	if err != nil {
		return nil, fmt.Errorf("describe the collateral contracts: %w", err)
	}
	return &API{
		peers: peers, cfg: cfg, contract: contract,
		kept:       newKept(cfg.Kept, cfg.KeptBytes, cfg.KeptFor),
		sessions:   newKept(cfg.Kept, 0, 0),
		signUps:    newQuota("accounts opened", cfg.SignUps, cfg.Networks),
		userSigns:  newQuota("accounts opened", cfg.SignUps, cfg.Networks),
		upgrades:   newQuota("accounts opened", cfg.SignUps, cfg.Networks),
		keys:       newQuota("keys made", cfg.Keys, cfg.Networks),
		logIns:     newQuota("sign-ins", cfg.LogIns, cfg.Networks),
		challenges: newQuota("challenges", cfg.Challenges, cfg.Networks),
		demand:     newDemand(peers, cfg),
	}, nil
}

// ofPeer gives the error of a call to a peer the form in which it concerns whoever
// called: a peer that takes too long, or went away, does not answer.
func ofPeer(ctx context.Context, err error) error {
	f, ok := fault.As(err)
	if !ok || f.Kind == fault.Timeout || f.Kind == fault.Canceled && ctx.Err() == nil {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	return err
}
