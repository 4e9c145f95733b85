package catalog

import (
	"context"
	"crypto/rand"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/node/database"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// maxConns bounds the connections to the database, of which one listens.
const maxConns = 4

// Spec is what a process must know of the catalog.
func Spec() node.Spec {
	return node.Spec{
		Name: node.Catalog, Database: true, Tables: Tables(),
		Peers: []string{node.Router},
		Callers: serve.Callers{
			catalogv1.CatalogService_ServiceDesc.ServiceName: {node.EdgeGateway, node.Router, node.BillingLedger,
				node.ProviderHub, node.Verifier},
			catalogv1.PublicCatalogService_ServiceDesc.ServiceName: {node.EdgeGateway, node.Verifier},
			catalogv1.CatalogAdminService_ServiceDesc.ServiceName:  {node.EdgeGateway},
			catalogv1.ActAdminService_ServiceDesc.ServiceName:      {node.EdgeGateway},
		},
	}
}

// Build adds the catalog to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	router, err := n.Peer(node.Router)
	if err != nil {
		return err
	}
	pool, err := database.Pool(ctx, n, node.Catalog, Tables(), maxConns)
	if err != nil {
		return err
	}
	service, err := New(ctx, cfg, Deps{
		Log: n.Log(node.Catalog), Meters: n.Meters(), Clock: clock.System, Random: rand.Reader,
		DB: pool, Router: routerv1.NewRouterServiceClient(router),
	})
	if err != nil {
		return err
	}
	n.Add(node.Catalog, service)
	return nil
}
