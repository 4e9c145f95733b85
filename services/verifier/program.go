package verifier

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// maxConns bounds the connections to the database.
const maxConns = 10

// Spec is what a process must know of the verifier.
func Spec() node.Spec {
	return node.Spec{
		Name: node.Verifier, Database: true, Tables: Tables(), Bus: true,
		Peers: []string{node.Catalog, node.BillingLedger, node.Settlement, node.ProviderHub},
		Callers: serve.Callers{
			verifierv1.VerifierAdminService_ServiceDesc.ServiceName: {node.EdgeGateway},
			verifierv1.ActAdminService_ServiceDesc.ServiceName:      {node.EdgeGateway},
			verifierv1.VerifierSelfService_ServiceDesc.ServiceName:  {node.EdgeGateway},
		},
	}
}

// Build adds the verifier to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	if err := cfg.CheckListeners(listeners(n)...); err != nil {
		return err
	}
	deps, err := clients(n)
	if err != nil {
		return err
	}
	if deps.Bus, err = n.Bus(ctx); err != nil {
		return err
	}
	if deps.DB, err = database.Pool(ctx, n, node.Verifier, Tables(), maxConns); err != nil {
		return err
	}
	deps.Log, deps.Meters, deps.Clock = n.Log(node.Verifier), n.Meters(), clock.System
	service, err := New(ctx, cfg, deps)
	if err != nil {
		return err
	}
	n.Add(node.Verifier, service)
	return nil
}

// clients are those of the services that the verifier calls.
func clients(n *node.Node) (Deps, error) {
	var faults []error
	to := func(service string) grpc.ClientConnInterface {
		conn, err := n.Peer(service)
		faults = append(faults, err)
		return conn
	}
	catalog, billing := to(node.Catalog), to(node.BillingLedger)
	settlement, hub := to(node.Settlement), to(node.ProviderHub)
	if err := errors.Join(faults...); err != nil {
		return Deps{}, err
	}
	return Deps{
		Catalog:       catalogv1.NewCatalogServiceClient(catalog),
		PublicCatalog: catalogv1.NewPublicCatalogServiceClient(catalog),
		House:         billingv1.NewHouseAccountServiceClient(billing),
		Verdicts:      hubv1.NewVerdictServiceClient(hub),
		Penalties:     settlementv1.NewPenaltyServiceClient(settlement),
		Hubs: func(address string) (hubv1.ChallengeServiceClient, error) {
			conn, err := n.Replica(node.ProviderHub, address)
			if err != nil {
				return nil, err
			}
			return hubv1.NewChallengeServiceClient(conn), nil
		},
	}, nil
}

// listeners are the addresses that every process has, as far as it listens there.
func listeners(n *node.Node) []string {
	if own := n.DispatchAddress(); own != node.InProcess {
		return []string{n.AdminAddress(), own}
	}
	return []string{n.AdminAddress()}
}
