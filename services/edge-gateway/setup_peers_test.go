package edgegateway

import (
	"crypto/rand"
	"errors"
	"log/slog"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// register makes the fleet the peers of a gateway.
func (f *fleet) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterKeyServiceServer(r, f.keys)
	billingv1.RegisterAdmissionServiceServer(r, f.billing)
	billingv1.RegisterReceiptServiceServer(r, receipts{})
	billingv1.RegisterAccountAdminServiceServer(r, f.market)
	billingv1.RegisterConsumerKeyServiceServer(r, f.ownKeys)
	billingv1.RegisterConsumerLimitServiceServer(r, f.ownKeys)
	billingv1.RegisterConsumerTermsServiceServer(r, f.ownKeys)
	billingv1.RegisterAccountOverviewAdminServiceServer(r, overviews{})
	billingv1.RegisterStreamAdminServiceServer(r, ownStreams{})
	billingv1.RegisterLedgerAdminServiceServer(r, books{})
	billingv1.RegisterEnterpriseAdminServiceServer(r, billingv1.UnimplementedEnterpriseAdminServiceServer{})
	billingv1.RegisterVendorPayableAdminServiceServer(r, billingv1.UnimplementedVendorPayableAdminServiceServer{})
	billingv1.RegisterIdempotencyServiceServer(r, f.claims)
	billingv1.RegisterVisitorServiceServer(r, f.visits)
	billingv1.RegisterCheckoutServiceServer(r, f.shop)
	billingv1.RegisterAccountFreezeAdminServiceServer(r, billingv1.UnimplementedAccountFreezeAdminServiceServer{})
	billingv1.RegisterCheckoutAdminServiceServer(r, billingv1.UnimplementedCheckoutAdminServiceServer{})
	billingv1.RegisterPlanServiceServer(r, subscriptions{})
	billingv1.RegisterSubscriptionServiceServer(r, subscriptions{})
	billingv1.RegisterSubscriptionAdminServiceServer(r, subscriptions{})
	billingv1.RegisterCardWebhookServiceServer(r, f.cards)
	billingv1.RegisterCardSandboxServiceServer(r, f.cards)
	routerv1.RegisterRouterServiceServer(r, f.router)
	catalogv1.RegisterCatalogServiceServer(r, f.catalog)
	catalogv1.RegisterPublicCatalogServiceServer(r, publicCatalog{})
	catalogv1.RegisterCatalogAdminServiceServer(r, catalogAdmin{})
	hubv1.RegisterDispatchServiceServer(r, f.hub)
	hubv1.RegisterProviderAdminServiceServer(r, f.selves)
	hubv1.RegisterProviderSelfServiceServer(r, f.selves)
	hubv1.RegisterExternalEndpointServiceServer(r, noEndpoints{})
	hubv1.RegisterExternalEndpointAdminServiceServer(r, noEndpoints{})
	hubv1.RegisterVendorAdminServiceServer(r, noVendors{})
	billingv1.RegisterUserServiceServer(r, f.people)
	billingv1.RegisterUserSelfServiceServer(r, f.people)
	billingv1.RegisterOperatorServiceServer(r, f.staff)
	billingv1.RegisterOperatorAdminServiceServer(r, f.staff)
	billingv1.RegisterActAdminServiceServer(r, billingv1.UnimplementedActAdminServiceServer{})
	catalogv1.RegisterActAdminServiceServer(r, catalogv1.UnimplementedActAdminServiceServer{})
	hubv1.RegisterActAdminServiceServer(r, hubActs{})
	settlementv1.RegisterActAdminServiceServer(r, settlementv1.UnimplementedActAdminServiceServer{})
	verifierv1.RegisterActAdminServiceServer(r, verifierv1.UnimplementedActAdminServiceServer{})
	billingv1.RegisterPassbookServiceServer(r, passbooks{})
	billingv1.RegisterPassbookExportServiceServer(r, passbooks{pieces: f.pieces})
	billingv1.RegisterWebhookServiceServer(r, webhooksStub{})
	billingv1.RegisterDemandServiceServer(r, asked{})
	billingv1.RegisterStatsServiceServer(r, publicFigures{})
	hubv1.RegisterPublicProviderServiceServer(r, publicFigures{})
	settlementv1.RegisterReconciliationServiceServer(r, settlementv1.UnimplementedReconciliationServiceServer{})
	settlementv1.RegisterPenaltyServiceServer(r, f.penalties)
	settlementv1.RegisterPenaltyAdminServiceServer(r, f.penalties)
	settlementv1.RegisterCollateralServiceServer(r, f.collateral)
	settlementv1.RegisterCollateralAdminServiceServer(r, settlementv1.UnimplementedCollateralAdminServiceServer{})
	settlementv1.RegisterEarningServiceServer(r, f.earned)
	settlementv1.RegisterEarningAdminServiceServer(r, settlementv1.UnimplementedEarningAdminServiceServer{})
	settlementv1.RegisterChainAdminServiceServer(r, settlementv1.UnimplementedChainAdminServiceServer{})
	settlementv1.RegisterConsumerDepositServiceServer(r, fundings{})
	settlementv1.RegisterReserveAdminServiceServer(r, settlementv1.UnimplementedReserveAdminServiceServer{})
	settlementv1.RegisterPayoutServiceServer(r, paid{})
	settlementv1.RegisterPayoutAdminServiceServer(r, settlementv1.UnimplementedPayoutAdminServiceServer{})
	settlementv1.RegisterRecoveryAdminServiceServer(r, settlementv1.UnimplementedRecoveryAdminServiceServer{})
	verifierv1.RegisterVerifierSelfServiceServer(r, f.verification)
	verifierv1.RegisterVerifierAdminServiceServer(r, f.verification)
}

// deps reach the peers by the connection.
func (f *fleet) deps() Deps {
	conn := f.named
	d := peersAt(conn)
	d.Log, d.Meters = slog.New(slog.NewTextHandler(f.log, nil)), metricnoop.MeterProvider{}
	d.Traces, d.Clock, d.Random = tracenoop.NewTracerProvider(), f.clock, rand.Reader
	d.Reached = func() error { return nil }
	_, dialled := conn.ClientConnInterface.(*grpc.ClientConn)
	d.RouterInProcess = !dialled
	d.Hubs = func(address string) (hubv1.DispatchServiceClient, error) {
		switch address {
		case "inprocess":
			return hubv1.NewDispatchServiceClient(conn), nil
		case "panic":
			panic("a programming error")
		}
		return nil, errors.New("no such hub")
	}
	return d
}

// peersAt are the clients of the peers.
func peersAt(conn grpc.ClientConnInterface) Deps {
	return Deps{
		Keys:        billingv1.NewKeyServiceClient(conn),
		Admission:   billingv1.NewAdmissionServiceClient(conn),
		Receipts:    billingv1.NewReceiptServiceClient(conn),
		Idempotency: billingv1.NewIdempotencyServiceClient(conn),
		Visits:      billingv1.NewVisitorServiceClient(conn),
		Checkouts:   billingv1.NewCheckoutServiceClient(conn),

		Freezes:           billingv1.NewAccountFreezeAdminServiceClient(conn),
		CheckoutAdmin:     billingv1.NewCheckoutAdminServiceClient(conn),
		Subscriptions:     billingv1.NewSubscriptionServiceClient(conn),
		PlanInvoices:      billingv1.NewSubscriptionAdminServiceClient(conn),
		CardWebhooks:      billingv1.NewCardWebhookServiceClient(conn),
		CardSandbox:       billingv1.NewCardSandboxServiceClient(conn),
		Router:            routerv1.NewRouterServiceClient(conn),
		Catalog:           catalogv1.NewCatalogServiceClient(conn),
		PublicCatalog:     catalogv1.NewPublicCatalogServiceClient(conn),
		CatalogAdmin:      catalogv1.NewCatalogAdminServiceClient(conn),
		Accounts:          billingv1.NewAccountAdminServiceClient(conn),
		Overview:          billingv1.NewAccountOverviewAdminServiceClient(conn),
		Streams:           billingv1.NewStreamAdminServiceClient(conn),
		Ledger:            billingv1.NewLedgerAdminServiceClient(conn),
		Terms:             billingv1.NewEnterpriseAdminServiceClient(conn),
		Payables:          billingv1.NewVendorPayableAdminServiceClient(conn),
		ProviderAdmin:     hubv1.NewProviderAdminServiceClient(conn),
		ProviderSelf:      hubv1.NewProviderSelfServiceClient(conn),
		Endpoints:         hubv1.NewExternalEndpointServiceClient(conn),
		EndpointAdmin:     hubv1.NewExternalEndpointAdminServiceClient(conn),
		Vendors:           hubv1.NewVendorAdminServiceClient(conn),
		Users:             billingv1.NewUserServiceClient(conn),
		UserSelf:          billingv1.NewUserSelfServiceClient(conn),
		Webhooks:          billingv1.NewWebhookServiceClient(conn),
		ConsumerKeys:      billingv1.NewConsumerKeyServiceClient(conn),
		ConsumerLimits:    billingv1.NewConsumerLimitServiceClient(conn),
		Plans:             billingv1.NewPlanServiceClient(conn),
		ConsumerTerms:     billingv1.NewConsumerTermsServiceClient(conn),
		Passbooks:         billingv1.NewPassbookServiceClient(conn),
		PassbookExports:   billingv1.NewPassbookExportServiceClient(conn),
		Demand:            billingv1.NewDemandServiceClient(conn),
		Stats:             billingv1.NewStatsServiceClient(conn),
		Providers:         hubv1.NewPublicProviderServiceClient(conn),
		Reconciliation:    settlementv1.NewReconciliationServiceClient(conn),
		Penalties:         settlementv1.NewPenaltyServiceClient(conn),
		PenaltyAdmin:      settlementv1.NewPenaltyAdminServiceClient(conn),
		Earnings:          settlementv1.NewEarningServiceClient(conn),
		Payouts:           settlementv1.NewPayoutServiceClient(conn),
		EarningAdmin:      settlementv1.NewEarningAdminServiceClient(conn),
		Collateral:        settlementv1.NewCollateralServiceClient(conn),
		CollateralAdmin:   settlementv1.NewCollateralAdminServiceClient(conn),
		Chains:            settlementv1.NewChainAdminServiceClient(conn),
		Deposits:          settlementv1.NewConsumerDepositServiceClient(conn),
		Reserves:          settlementv1.NewReserveAdminServiceClient(conn),
		PayoutAdmin:       settlementv1.NewPayoutAdminServiceClient(conn),
		Recovery:          settlementv1.NewRecoveryAdminServiceClient(conn),
		Verification:      verifierv1.NewVerifierSelfServiceClient(conn),
		VerificationAdmin: verifierv1.NewVerifierAdminServiceClient(conn),
		OperatorSessions:  billingv1.NewOperatorServiceClient(conn),
		Operators:         billingv1.NewOperatorAdminServiceClient(conn),
		Acts:              newActPeers(conn, conn, conn, conn, conn),
	}
}
