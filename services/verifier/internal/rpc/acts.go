package rpc

import (
	"context"

	"svc.internal/pkg/acts"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// Acts answers verifier.v1.ActAdminService.
type Acts struct {
	verifierv1.UnimplementedActAdminServiceServer
	Store acts.Store
}

// ListOwnActs lists what operators did here, the newest first.
func (s *Acts) ListOwnActs(
	ctx context.Context, req *verifierv1.ListOwnActsRequest,
) (*verifierv1.ListOwnActsResponse, error) {
	list, err := acts.List(ctx, s.Store, req.GetQuery())
	if err != nil {
		return nil, err
	}
	return &verifierv1.ListOwnActsResponse{List: list}, nil
}
