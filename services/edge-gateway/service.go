// Package edgegateway is the public face of the service: the OpenAI-compatible API under
// /v1, the catalog, receipts and the calls of providers' agents under /api/v1, and the
// operators' routes under /api/v1/admin on a listener of their own.
//
// The gateway owns no data. The catalog pushes the models to it, and it remembers keys
// for a minute. billing-ledger holds the money, the router chooses the providers, and
// provider-hub gives the answers. Everything that the gateway keeps is bounded: see
// Config.
//
// Logs hold no prompt, answer, key, query string or engine message. Metrics and profiles
// are not on these listeners.
package edgegateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"

	"svc.internal/pkg/address"
	"svc.internal/services/console"
	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/cardapi"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/httpapi"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/marketapi"
	"svc.internal/services/edge-gateway/internal/operator"
	"svc.internal/services/edge-gateway/internal/pages"
	"svc.internal/services/edge-gateway/internal/playground"
	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/ratelimit"
	"svc.internal/services/edge-gateway/internal/shapes"
	"svc.internal/services/edge-gateway/internal/sockets"
)

// Deps are the peers and tools of a gateway. All but Ledgers are needed.
type Deps struct {
	Log    *slog.Logger
	Meters metric.MeterProvider
	Traces trace.TracerProvider
	Clock  clock.Clock
	// Random makes request ids; it is safe for concurrent use.
	Random io.Reader
	// Bus delivers keys.v1.changed, and takes attempts.v1.gateway and shapes.v1.gateway.
	Bus *bus.Conn

	Keys      billingv1.KeyServiceClient
	Admission billingv1.AdmissionServiceClient
	Receipts  billingv1.ReceiptServiceClient
	// Idempotency keeps the claims of Idempotency-Keys, for all gateways.
	Idempotency billingv1.IdempotencyServiceClient
	// Visits counts the visits of clients without a key.
	Visits billingv1.VisitorServiceClient
	// Checkouts sells credit by card.
	Checkouts billingv1.CheckoutServiceClient
	// CheckoutAdmin shows operators what is paid by card, and gives it back.
	CheckoutAdmin billingv1.CheckoutAdminServiceClient
	// Freezes has operators freeze accounts and lift causes.
	Freezes billingv1.AccountFreezeAdminServiceClient
	// Subscriptions sells plans by the month, and PlanInvoices gives back what was paid for them.
	Subscriptions billingv1.SubscriptionServiceClient
	PlanInvoices  billingv1.SubscriptionAdminServiceClient
	// CardWebhooks takes what the card processor sends, CardSandbox has the sandbox's pages.
	CardWebhooks billingv1.CardWebhookServiceClient
	CardSandbox  billingv1.CardSandboxServiceClient
	Router       routerv1.RouterServiceClient
	// RouterInProcess reports whether Router answers in this process.
	RouterInProcess bool
	Catalog         catalogv1.CatalogServiceClient
	// Hubs finds the client of the hub at a dispatch address. It neither blocks nor dials
	// anew for each call.
	Hubs func(dispatchAddress string) (hubv1.DispatchServiceClient, error)

	// Ledgers finds the client of the replica of billing-ledger at an address, and returns false where that
	// replica is not connected. It does not block; nil asks any replica.
	Ledgers func(address string) (billingv1.AdmissionServiceClient, bool)

	// Reached returns nil once the services that every request needs have been reached.
	Reached func() error

	PublicCatalog catalogv1.PublicCatalogServiceClient
	CatalogAdmin  catalogv1.CatalogAdminServiceClient
	Accounts      billingv1.AccountAdminServiceClient
	// Overview finds accounts for operators.
	Overview billingv1.AccountOverviewAdminServiceClient
	// Ledger shows operators the books.
	Ledger billingv1.LedgerAdminServiceClient
	// Streams looks at the streams of the bus.
	Streams billingv1.StreamAdminServiceClient
	// Terms has what operators agree with accounts.
	Terms billingv1.EnterpriseAdminServiceClient
	// Plans shows anybody the plans that are sold.
	Plans billingv1.PlanServiceClient
	// ConsumerTerms shows users what operators agreed with their accounts, and takes their messages.
	ConsumerTerms billingv1.ConsumerTermsServiceClient
	// Payables has what vendors are owed.
	Payables billingv1.VendorPayableAdminServiceClient
	// UserSelf answers users who are signed in.
	UserSelf billingv1.UserSelfServiceClient
	// Webhooks keeps where accounts are told what happens to them.
	Webhooks billingv1.WebhookServiceClient
	// ConsumerKeys has the keys of their accounts, ConsumerLimits their limits and spend caps.
	ConsumerLimits billingv1.ConsumerLimitServiceClient
	ConsumerKeys   billingv1.ConsumerKeyServiceClient
	ProviderAdmin  hubv1.ProviderAdminServiceClient
	// Passbooks shows users their money and usage, and PassbookExports writes it as files.
	Passbooks       billingv1.PassbookServiceClient
	PassbookExports billingv1.PassbookExportServiceClient
	// ProviderSelf, Users and Demand answer the agents of providers.
	ProviderSelf hubv1.ProviderSelfServiceClient
	// Endpoints and EndpointAdmin are for the servers of providers, and Vendors is for the vendors of
	// gateway models.
	Endpoints     hubv1.ExternalEndpointServiceClient
	EndpointAdmin hubv1.ExternalEndpointAdminServiceClient
	Vendors       hubv1.VendorAdminServiceClient
	Users         billingv1.UserServiceClient
	Demand        billingv1.DemandServiceClient
	// Stats and Providers have what anybody may see of the service and of its providers.
	Stats          billingv1.StatsServiceClient
	Providers      hubv1.PublicProviderServiceClient
	Reconciliation settlementv1.ReconciliationServiceClient
	// Penalties is for providers, PenaltyAdmin for operators.
	Penalties    settlementv1.PenaltyServiceClient
	PenaltyAdmin settlementv1.PenaltyAdminServiceClient
	// Collateral is for providers, CollateralAdmin for operators.
	Collateral      settlementv1.CollateralServiceClient
	CollateralAdmin settlementv1.CollateralAdminServiceClient
	// Earnings is for providers, EarningAdmin for operators.
	Earnings     settlementv1.EarningServiceClient
	EarningAdmin settlementv1.EarningAdminServiceClient
	// Chains is for operators.
	Chains settlementv1.ChainAdminServiceClient
	// Deposits is for consumers.
	Deposits settlementv1.ConsumerDepositServiceClient
	// Reserves is for operators, too.
	Reserves settlementv1.ReserveAdminServiceClient
	// Payouts is for providers' owners, PayoutAdmin for operators.
	Payouts     settlementv1.PayoutServiceClient
	PayoutAdmin settlementv1.PayoutAdminServiceClient
	// Recovery has lost transactions taken into settlement.
	Recovery settlementv1.RecoveryAdminServiceClient
	// Verification is for providers, VerificationAdmin for operators.
	Verification      verifierv1.VerifierSelfServiceClient
	VerificationAdmin verifierv1.VerifierAdminServiceClient
	// OperatorSessions knows who signed in as an operator, and Operators has operators signed in
	// and made.
	OperatorSessions billingv1.OperatorServiceClient
	Operators        billingv1.OperatorAdminServiceClient
	// Acts list what operators did in each service.
	Acts ActPeers
}

// attemptsFrom stands in the subject for gateways, where a hub's id stands for the hub.
const attemptsFrom = "gateway"

// Service is one gateway.
type Service struct {
	deps    Deps
	auth    *auth.Authenticator
	models  *catalog.View
	reports *inference.Reports
	leases  *inference.Leases
	shapes  *shapes.Counter
	handler http.Handler
	// operators is the handler of the operators' listener.
	operators http.Handler
	metrics   *httpapi.Metrics
	sockets   sockets.Config
}

// market returns the peers of the routes of the market.
func (d Deps) market() marketapi.Peers {
	return marketapi.Peers{
		PublicCatalog:  d.PublicCatalog,
		CatalogAdmin:   d.CatalogAdmin,
		Accounts:       d.Accounts,
		Overview:       d.Overview,
		Ledger:         d.Ledger,
		Terms:          d.Terms,
		Payables:       d.Payables,
		UserSelf:       d.UserSelf,
		Webhooks:       d.Webhooks,
		Checkouts:      d.Checkouts,
		Subscriptions:  d.Subscriptions,
		PlanInvoices:   d.PlanInvoices,
		CheckoutAdmin:  d.CheckoutAdmin,
		Freezes:        d.Freezes,
		ConsumerKeys:   d.ConsumerKeys,
		ConsumerLimits: d.ConsumerLimits,
		ConsumerTerms:  d.ConsumerTerms,
		Plans:          d.Plans,
		Passbooks:      d.Passbooks,
		Providers:      d.ProviderAdmin,
		Router:         d.Router,
		Endpoints:      d.EndpointAdmin,
		Vendors:        d.Vendors,
		Reconciliation: d.Reconciliation,
		Penalties:      d.PenaltyAdmin,
		Earnings:       d.EarningAdmin,
		Chains:         d.Chains,
		Deposits:       d.Deposits,
		Reserves:       d.Reserves,
		Recovery:       d.Recovery,
		Payouts:        d.PayoutAdmin,
		Collateral:     d.CollateralAdmin,
		Verification:   d.VerificationAdmin,
		Operators:      d.Operators,
		Acts:           d.Acts.list(),
		Health:         newHealth(d.Acts, d.Router, d.Streams, d.Clock),
	}
}

// New makes a gateway. The gateway answers once Run has been started.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure the gateway: %w", err)
	}
	proxies, err := address.ParseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("configure the gateway: %w", err)
	}
	metrics, err := httpapi.NewMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	requests, err := inference.NewMetrics(deps.Meters)
	if err != nil {
		return nil, err
	}
	market, err := marketapi.New(ctx, deps.market(), marketapi.Config{MaxBody: cfg.MaxAdminBodyBytes})
	if err != nil {
		return nil, err
	}
	s := &Service{
		deps:    deps,
		metrics: metrics,
		sockets: sockets.Config{MaxConnections: cfg.MaxConnections, MaxPerNetwork: cfg.MaxConnectionsOfNetwork,
			Trusted: proxies},
		auth:    auth.New(deps.Keys, deps.Clock, cfg.auth()),
		models:  catalog.NewView(deps.Catalog, deps.Clock, deps.Log),
		reports: inference.NewReports(deps.Admission, deps.Log, requests.ReportsDropped, cfg.reports()),
		leases:  inference.NewLeases(deps.Admission, deps.Clock, deps.Log, cfg.leases()),
	}
	s.shapes = shapes.NewCounter(s.publishShapes, deps.Clock, deps.Log)
	provider, err := providerapi.New(providerapi.Peers{
		Self: deps.ProviderSelf, Endpoints: deps.Endpoints, Users: deps.Users, Demand: deps.Demand,
		Stats: deps.Stats, Providers: deps.Providers,
		Models: deps.PublicCatalog, Router: deps.Router, Penalties: deps.Penalties, Verification: deps.Verification,
		Earnings: deps.Earnings, Payouts: deps.Payouts, Collateral: deps.Collateral,
		Auth: s.auth, Clock: deps.Clock,
	}, cfg.provider())
	if err != nil {
		return nil, err
	}
	gate, err := newGate(cfg, deps)
	if err != nil {
		return nil, err
	}
	built, err := builtPages()
	if err != nil {
		return nil, err
	}
	surface := httpapi.New(httpapi.Parts{
		Log:       deps.Log,
		Tracer:    deps.Traces.Tracer("svc.internal/services/edge-gateway"),
		Clock:     deps.Clock,
		Random:    deps.Random,
		Metrics:   metrics,
		Auth:      s.auth,
		Addresses: address.New(proxies),
		Catalog:   s.models,
		Runner: inference.New(inference.Deps{
			Admission: s.admitter(cfg),
			Hubs:      deps.Hubs,
			Models:    s.models,
			Leases:    s.leases,
			Reports:   s.reports,
			Metrics:   requests,
			Shapes:    s.shapes,
			Clock:     deps.Clock,
			Random:    deps.Random,
			Log:       deps.Log,
		}, cfg.inference()),
		Receipts:   deps.Receipts,
		Passbooks:  deps.PassbookExports,
		Playground: newPlayground(deps, cfg),
		Idempotency: idempotency.New(cfg.idempotency(), idempotency.Deps{
			Claims: deps.Idempotency, Clock: deps.Clock, Random: deps.Random, Log: deps.Log,
		}),
		Rates:    ratelimit.New(deps.Admission, deps.Clock, cfg.rates()),
		Market:   market,
		Provider: provider,
		Cards: cardapi.New(cardapi.Peers{Webhooks: deps.CardWebhooks, Sandbox: deps.CardSandbox, Clock: deps.Clock},
			cfg.cards()),
		Pages: built,
		Ready: s.Ready,
	}, cfg.http())
	s.handler, s.operators = surface, surface.Operators(gate, operator.NewHosts(cfg.OperatorHosts))
	return s, nil
}

// admitter returns what admits requests.
func (s *Service) admitter(cfg Config) *admission.Admitter {
	c := cfg.admission(s.deps.RouterInProcess, s.reports.Flush)
	c.Ledger = s.deps.Ledgers
	return admission.New(s.deps.Admission, s.deps.Router, s.releaseSlot, c)
}

// builtPages are the console's pages, read and packed once in a process, because packing takes a part of
// a second.
var builtPages = sync.OnceValues(func() (*pages.Files, error) { return pages.Read(console.Files()) })

// newGate makes what lets operators in.
func newGate(cfg Config, deps Deps) (*operator.Gate, error) {
	bootstrap, err := operator.Parse(cfg.AdminTokens.Reveal())
	if err != nil {
		return nil, fmt.Errorf("configure the gateway: %w", err)
	}
	machines, err := operator.ParseMachines(cfg.MachineTokens.Reveal())
	if err != nil {
		return nil, fmt.Errorf("configure the gateway: %w", err)
	}
	if cfg.Bootstrap && bootstrap.Len() > 0 {
		deps.Log.Error("break-glass is on: bootstrap tokens may make every operator's call; unset SVC_GATEWAY_BOOTSTRAP",
			"tokens", bootstrap.Len())
	}
	return operator.NewGate(operator.Config{
		Machines: machines, Bootstrap: bootstrap, BreakGlass: cfg.Bootstrap, Sessions: deps.OperatorSessions,
		Timeout: cfg.AdmitTimeout, Clock: deps.Clock, Rate: cfg.WrongTokens, Networks: cfg.WrongKeyNetworks,
	}), nil
}

// newPlayground returns nil where no models are given away.
func newPlayground(deps Deps, cfg Config) *playground.Playground {
	if !cfg.hasPlayground() {
		return nil
	}
	return playground.New(deps.Visits, deps.Random, deps.Clock, cfg.playground())
}

// Handler answers all public requests. Its server must bound headers and must not bound
// the time of a whole request; serve.HTTP does so.
//
// Bytes that are no HTTP (two lengths, folded or far too many headers, an unknown
// encoding) never reach the handler: net/http answers them in plain text and closes the
// connection. Every request that reaches it and finds no route gets a JSON 404 or 405.
func (s *Service) Handler() http.Handler { return s.handler }

// OperatorHandler answers the operators' listener: /api/v1/admin, the operators' pages, and the public
// routes that those read or that probes ask. The public must not reach that listener. Its server
// must be like that of Handler.
func (s *Service) OperatorHandler() http.Handler { return s.operators }

// Bound bounds the connections of the listener that the handler is served on.
func (s *Service) Bound(lis net.Listener) net.Listener {
	return sockets.Bound(lis, s.sockets, address.Network, func(reason sockets.Reason) {
		s.metrics.ConnectionsRefused.Add(context.Background(), 1,
			metric.WithAttributes(attribute.String("reason", string(reason))))
	})
}

// Register adds nothing, because a gateway is called over HTTP alone. It stands here so
// that every service is put together alike.
func (s *Service) Register(grpc.ServiceRegistrar) {}

// Run keeps models and keys up to date, renews the holds of running requests, and sends
// reports, until ctx ends. Then it sends the waiting reports, for at most
// Config.ReportDrain. The caller stops the HTTP server first.
func (s *Service) Run(ctx context.Context) error {
	stop, err := s.auth.Listen(s.deps.Bus, s.deps.Log)
	if err != nil {
		return err
	}
	var loops sync.WaitGroup
	loops.Go(func() { s.models.Run(ctx) })
	loops.Go(func() { s.reports.Run(ctx) })
	loops.Go(func() { s.leases.Run(ctx) })
	loops.Go(func() { s.shapes.Run(ctx) })
	loops.Wait()
	if err := stop(); err != nil && s.deps.Bus.Connected() {
		return err
	}
	return nil
}

// releaseSlot reports to routers an attempt that never began. The message may be lost,
// because a booking ages out by itself.
func (s *Service) releaseSlot(ctx context.Context, attempt *eventsv1.Attempt) {
	data, err := proto.Marshal(&eventsv1.AttemptBatch{Attempts: []*eventsv1.Attempt{attempt}})
	if err == nil {
		err = s.deps.Bus.Publish(ctx, bus.SubjectAttempts(attemptsFrom), data, nil)
	}
	if err != nil {
		s.deps.Log.DebugContext(ctx, "could not release a booked slot", "error", err)
	}
}

// publishShapes reports what an hour's requests looked like. The message may be lost.
func (s *Service) publishShapes(ctx context.Context, report []byte) error {
	return s.deps.Bus.Publish(ctx, bus.SubjectShapes, report, nil)
}

// Ready returns nil once the models are known and the services that admit and route
// requests have been reached.
func (s *Service) Ready(context.Context) error {
	return errors.Join(s.models.Ready(), s.deps.Reached())
}
