package edgegateway

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	actsv1 "svc.internal/proto/svc/acts/v1"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	healthv1 "svc.internal/proto/svc/health/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// Spec is what a process must know of a gateway. No service calls a gateway: it answers
// ActService and HealthService over HTTP alone.
func Spec() node.Spec {
	return node.Spec{
		Name: node.EdgeGateway, Bus: true,
		Callers: serve.Callers{actsv1.ActService_ServiceDesc.ServiceName: nil,
			healthv1.HealthService_ServiceDesc.ServiceName: nil},
		Peers: []string{node.BillingLedger, node.Router, node.Catalog, node.ProviderHub, node.Settlement,
			node.Verifier},
	}
}

// ListenSetting is the setting that says where the service listens.
const ListenSetting = "gateway.http_addr (SVC_HTTP_ADDR)"

// OperatorSetting is the setting that says where the operators' listener is.
const OperatorSetting = "gateway.operator_addr (SVC_OPERATOR_ADDR)"

// Build adds a gateway to a process, with its public listener and its operators'
// listener.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	public, err := n.Listen(ListenSetting, cfg.HTTPAddr)
	if err != nil {
		return err
	}
	operators, err := n.Listen(OperatorSetting, cfg.OperatorAddr)
	if err != nil {
		return err
	}
	conn, err := n.Bus(ctx)
	if err != nil {
		return err
	}
	deps, err := peers(n)
	if err != nil {
		return err
	}
	deps.Log, deps.Meters, deps.Traces = n.Log(node.EdgeGateway), n.Meters(), n.Traces()
	deps.Clock, deps.Random, deps.Bus = clock.System, rand.Reader, conn
	service, err := New(ctx, cfg, deps)
	if err != nil {
		return err
	}
	n.Add(node.EdgeGateway, service)
	n.Serve(node.Endpoint{Name: "public API", Listener: service.Bound(public), Handler: service.Handler(), Public: true})
	n.Serve(node.Endpoint{Name: "operators' API", Listener: operators, Handler: service.OperatorHandler(), Public: true})
	return nil
}

// peers are the clients of the services that a gateway calls.
func peers(n *node.Node) (Deps, error) {
	var faults []error
	to := func(service string) grpc.ClientConnInterface {
		conn, err := n.Peer(service)
		faults = append(faults, err)
		return conn
	}
	billing, router, catalog := to(node.BillingLedger), to(node.Router), to(node.Catalog)
	hub, settlement, verifier := to(node.ProviderHub), to(node.Settlement), to(node.Verifier)
	if err := errors.Join(faults...); err != nil {
		return Deps{}, err
	}
	d := clients(billing, router, catalog, hub, settlement, verifier)
	d.Reached = func() error { return n.Reached(node.BillingLedger, node.Router) }
	d.Hubs, d.Ledgers = hubs(n), ledgers(n)
	d.RouterInProcess = slices.Contains(n.Names(), node.Router)
	return d, nil
}

// clients makes the clients from a connection to each service.
func clients(billing, router, catalog, hub, settlement, verifier grpc.ClientConnInterface) Deps {
	return Deps{
		Keys:              billingv1.NewKeyServiceClient(billing),
		Admission:         billingv1.NewAdmissionServiceClient(billing),
		Receipts:          billingv1.NewReceiptServiceClient(billing),
		Idempotency:       billingv1.NewIdempotencyServiceClient(billing),
		Visits:            billingv1.NewVisitorServiceClient(billing),
		Checkouts:         billingv1.NewCheckoutServiceClient(billing),
		Freezes:           billingv1.NewAccountFreezeAdminServiceClient(billing),
		CheckoutAdmin:     billingv1.NewCheckoutAdminServiceClient(billing),
		Subscriptions:     billingv1.NewSubscriptionServiceClient(billing),
		PlanInvoices:      billingv1.NewSubscriptionAdminServiceClient(billing),
		CardWebhooks:      billingv1.NewCardWebhookServiceClient(billing),
		CardSandbox:       billingv1.NewCardSandboxServiceClient(billing),
		Accounts:          billingv1.NewAccountAdminServiceClient(billing),
		Overview:          billingv1.NewAccountOverviewAdminServiceClient(billing),
		Streams:           billingv1.NewStreamAdminServiceClient(billing),
		Ledger:            billingv1.NewLedgerAdminServiceClient(billing),
		Terms:             billingv1.NewEnterpriseAdminServiceClient(billing),
		Payables:          billingv1.NewVendorPayableAdminServiceClient(billing),
		Router:            routerv1.NewRouterServiceClient(router),
		Catalog:           catalogv1.NewCatalogServiceClient(catalog),
		PublicCatalog:     catalogv1.NewPublicCatalogServiceClient(catalog),
		CatalogAdmin:      catalogv1.NewCatalogAdminServiceClient(catalog),
		ProviderAdmin:     hubv1.NewProviderAdminServiceClient(hub),
		ProviderSelf:      hubv1.NewProviderSelfServiceClient(hub),
		Endpoints:         hubv1.NewExternalEndpointServiceClient(hub),
		EndpointAdmin:     hubv1.NewExternalEndpointAdminServiceClient(hub),
		Vendors:           hubv1.NewVendorAdminServiceClient(hub),
		Users:             billingv1.NewUserServiceClient(billing),
		UserSelf:          billingv1.NewUserSelfServiceClient(billing),
		Webhooks:          billingv1.NewWebhookServiceClient(billing),
		ConsumerKeys:      billingv1.NewConsumerKeyServiceClient(billing),
		ConsumerLimits:    billingv1.NewConsumerLimitServiceClient(billing),
		Plans:             billingv1.NewPlanServiceClient(billing),
		ConsumerTerms:     billingv1.NewConsumerTermsServiceClient(billing),
		Passbooks:         billingv1.NewPassbookServiceClient(billing),
		PassbookExports:   billingv1.NewPassbookExportServiceClient(billing),
		Demand:            billingv1.NewDemandServiceClient(billing),
		Stats:             billingv1.NewStatsServiceClient(billing),
		Providers:         hubv1.NewPublicProviderServiceClient(hub),
		Reconciliation:    settlementv1.NewReconciliationServiceClient(settlement),
		Penalties:         settlementv1.NewPenaltyServiceClient(settlement),
		PenaltyAdmin:      settlementv1.NewPenaltyAdminServiceClient(settlement),
		Earnings:          settlementv1.NewEarningServiceClient(settlement),
		EarningAdmin:      settlementv1.NewEarningAdminServiceClient(settlement),
		Chains:            settlementv1.NewChainAdminServiceClient(settlement),
		Deposits:          settlementv1.NewConsumerDepositServiceClient(settlement),
		Reserves:          settlementv1.NewReserveAdminServiceClient(settlement),
		Payouts:           settlementv1.NewPayoutServiceClient(settlement),
		PayoutAdmin:       settlementv1.NewPayoutAdminServiceClient(settlement),
		Recovery:          settlementv1.NewRecoveryAdminServiceClient(settlement),
		Collateral:        settlementv1.NewCollateralServiceClient(settlement),
		CollateralAdmin:   settlementv1.NewCollateralAdminServiceClient(settlement),
		Verification:      verifierv1.NewVerifierSelfServiceClient(verifier),
		VerificationAdmin: verifierv1.NewVerifierAdminServiceClient(verifier),
		OperatorSessions:  billingv1.NewOperatorServiceClient(billing),
		Operators:         billingv1.NewOperatorAdminServiceClient(billing),
		Acts:              newActPeers(billing, catalog, hub, settlement, verifier),
	}
}

// hubs reaches each hub by its address.
func hubs(n *node.Node) func(string) (hubv1.DispatchServiceClient, error) {
	return func(address string) (hubv1.DispatchServiceClient, error) {
		conn, err := n.Replica(node.ProviderHub, address)
		if err != nil {
			return nil, err
		}
		return hubv1.NewDispatchServiceClient(conn), nil
	}
}

// ledgers reaches each replica of billing-ledger by its address.
func ledgers(n *node.Node) func(string) (billingv1.AdmissionServiceClient, bool) {
	return func(address string) (billingv1.AdmissionServiceClient, bool) {
		conn, ok := n.ConnectedReplica(node.BillingLedger, address)
		if !ok {
			return nil, false
		}
		return billingv1.NewAdmissionServiceClient(conn), true
	}
}
