package settlement

import (
	"context"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// maxConns bounds the connections to the database.
const maxConns = 4

// Spec is what a process must know of settlement.
func Spec() node.Spec {
	return node.Spec{
		Name: node.Settlement, Database: true, Tables: Tables(), Bus: true,
		Peers: []string{node.BillingLedger},
		Callers: serve.Callers{
			// Read only: it is how operators ask whether the lines agree.
			settlementv1.ReconciliationService_ServiceDesc.ServiceName: {node.EdgeGateway},
			settlementv1.UsageKeyService_ServiceDesc.ServiceName:       {node.ProviderHub},
		},
	}
}

// Build adds settlement to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	billing, err := n.Peer(node.BillingLedger)
	if err != nil {
		return err
	}
	conn, err := n.Bus(ctx)
	if err != nil {
		return err
	}
	pool, err := database.Pool(ctx, n, node.Settlement, Tables(), maxConns)
	if err != nil {
		return err
	}
	service, err := New(ctx, cfg, Deps{
		Log: n.Log(node.Settlement), Meters: n.Meters(), Clock: clock.System,
		Bus: conn, DB: pool, Accruals: billingv1.NewAccrualServiceClient(billing),
	})
	if err != nil {
		return err
	}
	n.Add(node.Settlement, service)
	return nil
}
