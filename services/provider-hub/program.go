package providerhub

import (
	"context"
	"crypto/rand"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/usageseal"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// maxConns bounds the connections to the database.
const maxConns = 6

// Spec says what a process must know of the hub with that id.
func Spec(hubID string) node.Spec {
	return node.Spec{
		Name: node.ProviderHub, HubID: hubID, Peers: []string{node.BillingLedger, node.Catalog, node.Settlement},
		Database: true, Tables: Tables(), Bus: true, Replicas: true,
		Callers: serve.Callers{
			hubv1.DispatchService_ServiceDesc.ServiceName:              {node.EdgeGateway},
			hubv1.ProviderAdminService_ServiceDesc.ServiceName:         {node.EdgeGateway},
			hubv1.ActAdminService_ServiceDesc.ServiceName:              {node.EdgeGateway},
			hubv1.ProviderSelfService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			hubv1.ExternalEndpointService_ServiceDesc.ServiceName:      {node.EdgeGateway},
			hubv1.ExternalEndpointAdminService_ServiceDesc.ServiceName: {node.EdgeGateway},
			hubv1.VendorAdminService_ServiceDesc.ServiceName:           {node.EdgeGateway},
			hubv1.PublicProviderService_ServiceDesc.ServiceName:        {node.EdgeGateway},
			hubv1.ProviderDirectoryService_ServiceDesc.ServiceName:     {node.Router},
			hubv1.ChallengeService_ServiceDesc.ServiceName:             {node.Verifier},
			hubv1.VerdictService_ServiceDesc.ServiceName:               {node.Verifier},
			hubv1.ProviderCollateralService_ServiceDesc.ServiceName:    {node.Settlement},
			hubv1.PayeeService_ServiceDesc.ServiceName:                 {node.Settlement},
		},
	}
}

// keyReceivers are the services that check the seals of usage.
func keyReceivers(n *node.Node) ([]KeyReceiver, error) {
	billing, err := n.Peer(node.BillingLedger)
	if err != nil {
		return nil, err
	}
	settlement, err := n.Peer(node.Settlement)
	if err != nil {
		return nil, err
	}
	ledger, earnings := billingv1.NewUsageKeyServiceClient(billing), settlementv1.NewUsageKeyServiceClient(settlement)
	return []KeyReceiver{
		{Name: node.BillingLedger, Hand: func(ctx context.Context, hub string, key usageseal.Key) error {
			_, err := ledger.HandUsageKey(ctx, &billingv1.HandUsageKeyRequest{HubId: hub, KeyId: key.ID[:], Key: key.Secret[:]})
			return err
		}},
		{Name: node.Settlement, Hand: func(ctx context.Context, hub string, key usageseal.Key) error {
			_, err := earnings.HandUsageKey(ctx, &settlementv1.HandUsageKeyRequest{HubId: hub, KeyId: key.ID[:],
				Key: key.Secret[:]})
			return err
		}},
	}, nil
}

// ListenSetting names the setting of the address at which the service listens.
const ListenSetting = "hub.ws_addr (SVC_WS_ADDR)"

// Build adds a hub to a process, with its listener for agents.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	if err := cfg.CheckListeners(cfg.listeners(n)...); err != nil {
		return err
	}
	sockets, err := n.Listen(ListenSetting, cfg.WSAddr)
	if err != nil {
		return err
	}
	conn, err := n.Bus(ctx)
	if err != nil {
		return err
	}
	pool, err := database.Pool(ctx, n, node.ProviderHub, Tables(), maxConns)
	if err != nil {
		return err
	}
	receivers, err := keyReceivers(n)
	if err != nil {
		return err
	}
	catalog, err := n.Peer(node.Catalog)
	if err != nil {
		return err
	}
	cfg.DispatchAddress = n.DispatchAddress()
	service, err := New(ctx, cfg, Deps{
		Log: n.Log(node.ProviderHub), Meters: n.Meters(), Clock: clock.System, Random: rand.Reader,
		Bus: conn, DB: pool, UsageKeys: receivers, Catalog: catalogv1.NewCatalogServiceClient(catalog),
	})
	if err != nil {
		return err
	}
	n.Add(node.ProviderHub, service)
	n.Serve(node.Endpoint{Name: "provider sockets", Listener: serve.Pace(sockets, cfg.DialsPerSecond),
		Handler: service.Handler()})
	return nil
}
