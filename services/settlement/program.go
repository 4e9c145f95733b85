package settlement

import (
	"context"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
)

const (
	// maxConns bounds the connections to the database.
	maxConns = 8
	// chainConns are further ones for each chain: its watcher's lock has one, and its work another.
	chainConns = 2
)

// Spec is what a process must know of settlement.
func Spec() node.Spec {
	return node.Spec{
		Name: node.Settlement, Database: true, Tables: Tables(), Bus: true,
		Peers: []string{node.BillingLedger, node.ProviderHub}, Optional: []string{node.ChainSigner},
		Callers: serve.Callers{
			// Read only: it is how operators ask whether the lines agree.
			settlementv1.ReconciliationService_ServiceDesc.ServiceName: {node.EdgeGateway},
			settlementv1.UsageKeyService_ServiceDesc.ServiceName:       {node.ProviderHub},
			// Which of its calls each of the two may make, rpc.Penalties says.
			settlementv1.PenaltyService_ServiceDesc.ServiceName:         {node.Verifier, node.EdgeGateway},
			settlementv1.PenaltyAdminService_ServiceDesc.ServiceName:    {node.EdgeGateway},
			settlementv1.EarningService_ServiceDesc.ServiceName:         {node.EdgeGateway},
			settlementv1.EarningAdminService_ServiceDesc.ServiceName:    {node.EdgeGateway},
			settlementv1.CollateralService_ServiceDesc.ServiceName:      {node.EdgeGateway},
			settlementv1.CollateralAdminService_ServiceDesc.ServiceName: {node.EdgeGateway},
			settlementv1.DepositService_ServiceDesc.ServiceName:         {node.EdgeGateway},
			settlementv1.ChainAdminService_ServiceDesc.ServiceName:      {node.EdgeGateway},
			settlementv1.PayoutService_ServiceDesc.ServiceName:          {node.EdgeGateway},
			settlementv1.PayoutAdminService_ServiceDesc.ServiceName:     {node.EdgeGateway},
			settlementv1.ReserveAdminService_ServiceDesc.ServiceName:    {node.EdgeGateway},
			settlementv1.RecoveryAdminService_ServiceDesc.ServiceName:   {node.EdgeGateway},
			settlementv1.ConsumerDepositService_ServiceDesc.ServiceName: {node.EdgeGateway},
			settlementv1.ActAdminService_ServiceDesc.ServiceName:        {node.EdgeGateway},
		},
	}
}

// Build adds settlement to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	if err := cfg.CheckListeners(listeners(n)...); err != nil {
		return err
	}
	billing, err := n.Peer(node.BillingLedger)
	if err != nil {
		return err
	}
	hub, err := n.Peer(node.ProviderHub)
	if err != nil {
		return err
	}
	conn, err := n.Bus(ctx)
	if err != nil {
		return err
	}
	pool, err := database.Pool(ctx, n, node.Settlement, Tables(), maxConns+chainConns*int32(len(cfg.Chains)))
	if err != nil {
		return err
	}
	var signer signerv1.SignerServiceClient
	if n.Knows(node.ChainSigner) {
		conn, err := n.Peer(node.ChainSigner)
		if err != nil {
			return err
		}
		signer = signerv1.NewSignerServiceClient(conn)
	}
	service, err := New(ctx, cfg, Deps{
		Log: n.Log(node.Settlement), Meters: n.Meters(), Clock: clock.System,
		Bus: conn, DB: pool, Accruals: billingv1.NewAccrualServiceClient(billing),
		Posting: billingv1.NewPostingServiceClient(billing), Balances: billingv1.NewBalanceServiceClient(billing),
		Cards:  billingv1.NewCardServiceClient(billing),
		Payees: hubv1.NewPayeeServiceClient(hub), Collateral: hubv1.NewProviderCollateralServiceClient(hub), Signer: signer,
	})
	if err != nil {
		return err
	}
	n.Add(node.Settlement, service)
	return nil
}

// listeners are the addresses that every process has, as far as it listens there.
func listeners(n *node.Node) []string {
	if own := n.DispatchAddress(); own != node.InProcess {
		return []string{n.AdminAddress(), own}
	}
	return []string{n.AdminAddress()}
}
