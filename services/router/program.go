package router

import (
	"context"
	"crypto/rand"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// Spec is what a process must know of the router.
func Spec() node.Spec {
	return node.Spec{
		Name: node.Router, Bus: true,
		Peers: []string{node.Catalog, node.ProviderHub},
		Callers: serve.Callers{
			routerv1.RouterService_ServiceDesc.ServiceName: {node.EdgeGateway, node.Catalog},
		},
	}
}

// Build adds the router to a process.
func Build(ctx context.Context, cfg Config, n *node.Node) error {
	catalog, err := n.Peer(node.Catalog)
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
	service, err := New(ctx, cfg, Deps{
		Log: n.Log(node.Router), Meters: n.Meters(), Clock: clock.System, Random: rand.Reader,
		Bus: conn, Catalog: catalogv1.NewCatalogServiceClient(catalog),
		Providers: hubv1.NewProviderDirectoryServiceClient(hub),
	})
	if err != nil {
		return err
	}
	n.Add(node.Router, service)
	return nil
}
