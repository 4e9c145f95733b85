package rpc

import (
	"context"

	"svc.internal/pkg/acts"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// Acts answers catalog.v1.ActAdminService.
type Acts struct {
	catalogv1.UnimplementedActAdminServiceServer
	Store acts.Store
}

// ListOwnActs lists what operators did here, the newest first.
func (s *Acts) ListOwnActs(
	ctx context.Context, req *catalogv1.ListOwnActsRequest,
) (*catalogv1.ListOwnActsResponse, error) {
	list, err := acts.List(ctx, s.Store, req.GetQuery())
	if err != nil {
		return nil, err
	}
	return &catalogv1.ListOwnActsResponse{List: list}, nil
}
