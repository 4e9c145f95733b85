package rpc

import (
	"context"

	"svc.internal/pkg/acts"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// Acts answers billing.v1.ActAdminService.
type Acts struct {
	billingv1.UnimplementedActAdminServiceServer
	Store acts.Store
}

// ListOwnActs lists what operators did here, the newest first.
func (s *Acts) ListOwnActs(
	ctx context.Context, req *billingv1.ListOwnActsRequest,
) (*billingv1.ListOwnActsResponse, error) {
	list, err := acts.List(ctx, s.Store, req.GetQuery())
	if err != nil {
		return nil, err
	}
	return &billingv1.ListOwnActsResponse{List: list}, nil
}
