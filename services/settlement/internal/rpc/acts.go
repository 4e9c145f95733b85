package rpc

import (
	"context"

	"svc.internal/pkg/acts"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// Acts answers settlement.v1.ActAdminService.
type Acts struct {
	settlementv1.UnimplementedActAdminServiceServer
	Store acts.Store
}

// ListOwnActs lists what operators did here, the newest first.
func (s *Acts) ListOwnActs(
	ctx context.Context, req *settlementv1.ListOwnActsRequest,
) (*settlementv1.ListOwnActsResponse, error) {
	list, err := acts.List(ctx, s.Store, req.GetQuery())
	if err != nil {
		return nil, err
	}
	return &settlementv1.ListOwnActsResponse{List: list}, nil
}
