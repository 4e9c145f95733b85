package billingledger

import (
	"context"
	"crypto/rand"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// maxConns bounds the connections to the database.
const maxConns = 18

// Spec is what a process must know of billing-ledger.
func Spec() node.Spec {
	return node.Spec{
		Name: node.BillingLedger, Database: true, Tables: Tables(), Bus: true, Replicas: true,
		Peers: []string{node.Catalog},
		Callers: serve.Callers{
			billingv1.KeyService_ServiceDesc.ServiceName:                  {node.EdgeGateway},
			billingv1.ConsumerKeyService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			billingv1.ConsumerLimitService_ServiceDesc.ServiceName:        {node.EdgeGateway},
			billingv1.AdmissionService_ServiceDesc.ServiceName:            {node.EdgeGateway},
			billingv1.SliceService_ServiceDesc.ServiceName:                {node.BillingLedger},
			billingv1.ReceiptService_ServiceDesc.ServiceName:              {node.EdgeGateway},
			billingv1.AccountAdminService_ServiceDesc.ServiceName:         {node.EdgeGateway},
			billingv1.EnterpriseAdminService_ServiceDesc.ServiceName:      {node.EdgeGateway},
			billingv1.ConsumerTermsService_ServiceDesc.ServiceName:        {node.EdgeGateway},
			billingv1.VendorPayableAdminService_ServiceDesc.ServiceName:   {node.EdgeGateway},
			billingv1.AccrualService_ServiceDesc.ServiceName:              {node.Settlement},
			billingv1.PostingService_ServiceDesc.ServiceName:              {node.Settlement},
			billingv1.BalanceService_ServiceDesc.ServiceName:              {node.Settlement},
			billingv1.IdempotencyService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			billingv1.VisitorService_ServiceDesc.ServiceName:              {node.EdgeGateway},
			billingv1.UserService_ServiceDesc.ServiceName:                 {node.EdgeGateway},
			billingv1.UserSelfService_ServiceDesc.ServiceName:             {node.EdgeGateway},
			billingv1.DemandService_ServiceDesc.ServiceName:               {node.EdgeGateway},
			billingv1.StatsService_ServiceDesc.ServiceName:                {node.EdgeGateway},
			billingv1.UsageKeyService_ServiceDesc.ServiceName:             {node.ProviderHub},
			billingv1.HouseAccountService_ServiceDesc.ServiceName:         {node.Verifier},
			billingv1.CardService_ServiceDesc.ServiceName:                 {node.Settlement},
			billingv1.CheckoutService_ServiceDesc.ServiceName:             {node.EdgeGateway},
			billingv1.CardWebhookService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			billingv1.CardSandboxService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			billingv1.AccountFreezeAdminService_ServiceDesc.ServiceName:   {node.EdgeGateway},
			billingv1.CheckoutAdminService_ServiceDesc.ServiceName:        {node.EdgeGateway},
			billingv1.PlanService_ServiceDesc.ServiceName:                 {node.EdgeGateway},
			billingv1.SubscriptionService_ServiceDesc.ServiceName:         {node.EdgeGateway},
			billingv1.SubscriptionAdminService_ServiceDesc.ServiceName:    {node.EdgeGateway},
			billingv1.AccountOverviewAdminService_ServiceDesc.ServiceName: {node.EdgeGateway},
			billingv1.PassbookService_ServiceDesc.ServiceName:             {node.EdgeGateway},
			billingv1.PassbookExportService_ServiceDesc.ServiceName:       {node.EdgeGateway},
			billingv1.WebhookService_ServiceDesc.ServiceName:              {node.EdgeGateway},
			billingv1.OperatorService_ServiceDesc.ServiceName:             {node.EdgeGateway},
			billingv1.OperatorAdminService_ServiceDesc.ServiceName:        {node.EdgeGateway},
			billingv1.ActAdminService_ServiceDesc.ServiceName:             {node.EdgeGateway},
			billingv1.LedgerAdminService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			billingv1.StreamAdminService_ServiceDesc.ServiceName:          {node.EdgeGateway},
		},
	}
}

// Build adds billing-ledger to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	if err := cfg.CheckListeners(listeners(n)...); err != nil {
		return err
	}
	catalog, err := n.Peer(node.Catalog)
	if err != nil {
		return err
	}
	conn, err := n.Bus(ctx)
	if err != nil {
		return err
	}
	pool, err := database.Pool(ctx, n, node.BillingLedger, Tables(), maxConns)
	if err != nil {
		return err
	}
	address := n.DispatchAddress()
	if address == node.InProcess {
		address = ""
	}
	service, err := New(ctx, cfg, Deps{
		Log: n.Log(node.BillingLedger), Meters: n.Meters(), Clock: clock.System, Random: rand.Reader,
		Bus: conn, DB: pool, Catalog: catalogv1.NewCatalogServiceClient(catalog),
		Address: address,
		Replica: func(address string) (grpc.ClientConnInterface, error) {
			return n.Replica(node.BillingLedger, address)
		},
	})
	if err != nil {
		return err
	}
	n.Add(node.BillingLedger, service)
	return nil
}
