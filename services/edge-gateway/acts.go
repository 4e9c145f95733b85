package edgegateway

import (
	"context"

	"google.golang.org/grpc"

	"svc.internal/pkg/node"
	actsv1 "svc.internal/proto/svc/acts/v1"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"

	"svc.internal/services/edge-gateway/internal/actlist"
)

// ActPeers are the services that operators act on.
type ActPeers struct {
	Billing    billingv1.ActAdminServiceClient
	Catalog    catalogv1.ActAdminServiceClient
	Hub        hubv1.ActAdminServiceClient
	Settlement settlementv1.ActAdminServiceClient
	Verifier   verifierv1.ActAdminServiceClient
}

// newActPeers returns the clients of the services at these connections.
func newActPeers(billing, catalog, hub, settlement, verifier grpc.ClientConnInterface) ActPeers {
	return ActPeers{
		Billing: billingv1.NewActAdminServiceClient(billing), Catalog: catalogv1.NewActAdminServiceClient(catalog),
		Hub: hubv1.NewActAdminServiceClient(hub), Settlement: settlementv1.NewActAdminServiceClient(settlement),
		Verifier: verifierv1.NewActAdminServiceClient(verifier),
	}
}

// list merges the acts of all services.
func (p ActPeers) list() *actlist.List { return actlist.New(p.sources(), actlist.Timeout) }

// sources ask the services for their acts.
func (p ActPeers) sources() []actlist.Source {
	return []actlist.Source{
		{Service: node.BillingLedger, List: func(ctx context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error) {
			resp, err := p.Billing.ListOwnActs(ctx, &billingv1.ListOwnActsRequest{Query: q})
			return resp.GetList(), err
		}},
		{Service: node.Catalog, List: func(ctx context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error) {
			resp, err := p.Catalog.ListOwnActs(ctx, &catalogv1.ListOwnActsRequest{Query: q})
			return resp.GetList(), err
		}},
		{Service: node.ProviderHub, List: func(ctx context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error) {
			resp, err := p.Hub.ListOwnActs(ctx, &hubv1.ListOwnActsRequest{Query: q})
			return resp.GetList(), err
		}},
		{Service: node.Settlement, List: func(ctx context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error) {
			resp, err := p.Settlement.ListOwnActs(ctx, &settlementv1.ListOwnActsRequest{Query: q})
			return resp.GetList(), err
		}},
		{Service: node.Verifier, List: func(ctx context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error) {
			resp, err := p.Verifier.ListOwnActs(ctx, &verifierv1.ListOwnActsRequest{Query: q})
			return resp.GetList(), err
		}},
	}
}
