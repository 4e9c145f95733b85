package edgegateway

import (
	"context"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/node"
	actsv1 "svc.internal/proto/svc/acts/v1"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/healthview"
)

// newHealth asks all services how they fare. A service with a database is asked for its newest act,
// which is in the database.
func newHealth(
	acts ActPeers, router routerv1.RouterServiceClient, streams billingv1.StreamAdminServiceClient, c clock.Clock,
) *healthview.View {
	from := healthview.Sources{RouterName: node.Router, Router: router, Streams: streams, Clock: c}
	for _, s := range acts.sources() {
		from.Services = append(from.Services, healthview.Service{Name: s.Service, Ask: func(ctx context.Context) error {
			_, err := s.List(ctx, &actsv1.ActQuery{Limit: 1})
			return err
		}})
	}
	return healthview.New(from, healthview.Timeout)
}
