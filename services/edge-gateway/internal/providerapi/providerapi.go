// Package providerapi answers the HTTP calls of provider agents: the state of their
// account, changes to it, its verification and penalties, what the market wants, and the sign-up of users
// who become providers.
//
// Agents in the field cannot be changed, so the paths, members and statuses stay as
// agents know them. The most fragile call is the status call. An agent makes it once,
// before it connects, and takes any JSON without api_key_valid:true for a verdict that
// lasts until a human restarts the agent. So only a key that is really wrong is answered
// in JSON. Every other failure is plain text, and for ten minutes the last good answer
// stands in for a hub that does not answer. On the routes of users that agents call, an
// error has its text in the member error.
//
// Whoever moves a provider's money is its owner: by the session of its user, or by a
// signature of its wallet over this very request (see API.owner, the one place that decides
// it). A provider key alone only reads. Such a POST needs an Idempotency-Key.
//
// Provider keys and the tokens of user sessions are sent to the services as SHA-256
// digests. Wrong keys and tokens are counted for each network together with wrong
// consumer keys (package auth). Calls that anyone may make are counted for each network
// here, by each gateway for itself.
//
// Limits: MaxBody bytes of a body, 32 members in it; Config.Kept keys
// remembered, with answers of Config.KeptBytes; Config.Networks networks counted for each
// kind of call; 1,000 models of the demand, and 1,000 models and providers of the figures of the
// service, at most Config.DemandKept old.
package providerapi

import (
	"context"
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
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"

	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/quota"
)

// MaxBody bounds a body in bytes.
const MaxBody = 64 << 10

// Peers are the services that answer the calls.
type Peers struct {
	Self hubv1.ProviderSelfServiceClient
	// Endpoints looks after the servers of providers that have no agent.
	Endpoints hubv1.ExternalEndpointServiceClient
	Users     billingv1.UserServiceClient
	Demand    billingv1.DemandServiceClient
	// Stats has the figures of the service, and Providers names who serves.
	Stats     billingv1.StatsServiceClient
	Providers hubv1.PublicProviderServiceClient
	Models    catalogv1.PublicCatalogServiceClient
	Router    routerv1.RouterServiceClient
	// Penalties lists penalties and takes appeals.
	Penalties settlementv1.PenaltyServiceClient
	// Collateral says what stands behind providers, and takes refunds.
	Collateral settlementv1.CollateralServiceClient
	// Earnings says where earnings stand, with statements and months of plans.
	Earnings settlementv1.EarningServiceClient
	// Payouts takes requests of owners, and lists payouts.
	Payouts settlementv1.PayoutServiceClient
	// Verification shows a provider its own challenges, benchmarks and standing.
	Verification verifierv1.VerifierSelfServiceClient
	// Auth bounds how many wrong keys and sessions a network may try.
	Auth  *auth.Authenticator
	Clock clock.Clock
}

// Config bounds the calls.
type Config struct {
	// CallTimeout bounds one call to a peer. ExplainTimeout bounds the call to a router,
	// without which a status is given too.
	CallTimeout, ExplainTimeout time.Duration
	// Kept is how many provider keys are remembered as good. The last answers to their status
	// calls are kept for KeptFor, in at most KeptBytes together.
	Kept, KeptBytes int
	KeptFor         time.Duration
	// DemandFor is how long answers that are the same for everybody count as fresh, such as the
	// demand and the figures of the service. DemandKept is how long they are given while they
	// cannot be read anew.
	DemandFor, DemandKept time.Duration
	// Networks is how many networks are counted for each kind of call.
	Networks int
	// SignUps bounds the accounts that are opened, and Keys the keys that users make. LogIns
	// bounds the attempts to sign in: by password, by a wallet's signature or at an OpenID
	// provider. Challenges bounds three things, each counted by itself: challenges for
	// providers' wallets, challenges for users' wallets together with the starts of sign-ins and
	// links at OpenID providers, and calls that wallets signed. The accounts of users, of providers, and
	// of users who become providers are counted apart. Each bound is that of one network.
	SignUps, Keys, LogIns, Challenges quota.Rate
	// Refreshes bounds the sessions that are refreshed, Letters the letters that are asked
	// for. The tokens of letters that are tried have the bound of LogIns.
	Refreshes, Letters quota.Rate
	// Origins are the origins of our pages beside the one that the call goes to. Wallets sign
	// for them alone.
	Origins []string
	// Playground reports whether visitors may ask models without a key.
	Playground bool
}

// Call is one request, its body read.
type Call struct {
	Method string
	Header http.Header
	Query  url.Values
	// Path is the path, still escaped, and Rest its variable part.
	Path, Rest string
	Body       []byte
	// Unread is why the body was not read. It is reported once the caller is known.
	Unread error
	From   netip.Addr
}

// Answer is the answer to a call.
type Answer struct {
	Status int
	// Header is set beside the content's type and length; nil for none.
	Header http.Header
	// JSON is the body.
	JSON []byte
	// Shown is the error that a page shows to which the answer leads; nil for none.
	Shown error
}

// API answers calls. The caller answers their errors.
type API struct {
	peers Peers
	cfg   Config

	kept       *answerCache // provider keys
	signUps    *quota.Quota // of providers
	userSigns  *quota.Quota
	upgrades   *quota.Quota
	keys       *quota.Quota
	logIns     *quota.Quota
	challenges *quota.Quota
	// userChallenges are those of wallets whose users sign in or link them, and the starts of
	// sign-ins and links at OpenID providers.
	userChallenges *quota.Quota
	signatures     *quota.Quota
	refreshes      *quota.Quota
	letters        *quota.Quota
	// letterTokens counts the tokens of letters that are tried.
	letterTokens *quota.Quota
	demand       *refreshed[*answers]
	stats        *refreshed[*answers]
	// contracts says where collateral is taken.
	contracts     *refreshed[*settlementv1.GetContractsResponse]
	signInMethods *refreshed[*billingv1.GetSignInMethodsResponse]
}

// New makes the API.
func New(peers Peers, cfg Config) (*API, error) {
	a := &API{
		peers: peers, cfg: cfg,
		kept:           newAnswerCache(cfg.Kept, cfg.KeptBytes, cfg.KeptFor),
		signUps:        quota.New("accounts opened", cfg.SignUps, cfg.Networks),
		userSigns:      quota.New("accounts opened", cfg.SignUps, cfg.Networks),
		upgrades:       quota.New("accounts opened", cfg.SignUps, cfg.Networks),
		keys:           quota.New("keys made", cfg.Keys, cfg.Networks),
		logIns:         quota.New("sign-ins", cfg.LogIns, cfg.Networks),
		challenges:     quota.New("challenges", cfg.Challenges, cfg.Networks),
		userChallenges: quota.New("challenges", cfg.Challenges, cfg.Networks),
		signatures:     quota.New("signed calls", cfg.Challenges, cfg.Networks),
		refreshes:      quota.New("refreshed sessions", cfg.Refreshes, cfg.Networks),
		letters:        quota.New("letters", cfg.Letters, cfg.Networks),

		letterTokens: quota.New("letters' tokens", cfg.LogIns, cfg.Networks),
		demand:       newRefreshed(peers.Clock, cfg, (&demand{models: peers.Models, ledger: peers.Demand}).answers),
		stats: newRefreshed(peers.Clock, cfg, (&statsPeers{
			ledger: peers.Stats, models: peers.Models, router: peers.Router, hub: peers.Providers,
		}).answers),
	}
	a.contracts = newRefreshed(peers.Clock, cfg, func(ctx context.Context) (*settlementv1.GetContractsResponse, error) {
		return peers.Collateral.GetContracts(ctx, &settlementv1.GetContractsRequest{})
	})
	a.signInMethods = newRefreshed(peers.Clock, cfg,
		func(ctx context.Context) (*billingv1.GetSignInMethodsResponse, error) {
			return peers.Users.GetSignInMethods(ctx, &billingv1.GetSignInMethodsRequest{})
		})
	// Both say what the installation is set up for. After a quiet hour the last answer may be
	// wrong, so a caller waits for a new one.
	a.contracts.patient, a.signInMethods.patient = true, true
	return a, nil
}

// newRefreshed keeps what is made for as long as the settings say.
func newRefreshed[T any](clk clock.Clock, cfg Config, by func(context.Context) (T, error)) *refreshed[T] {
	return &refreshed[T]{clock: clk, freshFor: cfg.DemandFor, keptFor: cfg.DemandKept, timeout: cfg.CallTimeout, make: by}
}

// ofPeer turns the error of a call to a peer into the error for the client: a peer that
// takes too long, or has closed the connection, counts as a service that does not answer.
func ofPeer(ctx context.Context, err error) error {
	f, ok := fault.As(err)
	if !ok || f.Kind == fault.Timeout || f.Kind == fault.Canceled && ctx.Err() == nil {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "A part of the service does not answer.")
	}
	return err
}
