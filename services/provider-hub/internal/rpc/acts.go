package rpc

import (
	"context"

	"svc.internal/pkg/acts"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// Acts answers hub.v1.ActAdminService.
type Acts struct {
	hubv1.UnimplementedActAdminServiceServer
	Store acts.Store
}

// ListOwnActs lists what operators did here, the newest first.
func (s *Acts) ListOwnActs(
	ctx context.Context, req *hubv1.ListOwnActsRequest,
) (*hubv1.ListOwnActsResponse, error) {
	list, err := acts.List(ctx, s.Store, req.GetQuery())
	if err != nil {
		return nil, err
	}
	return &hubv1.ListOwnActsResponse{List: list}, nil
}
