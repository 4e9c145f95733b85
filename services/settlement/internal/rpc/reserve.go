package rpc

import (
	"context"

	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/reserve"
)

// Findings says what the last readings of reserves found: store.Reserves.
type Findings interface {
	Findings(ctx context.Context) ([]reserve.Finding, error)
}

// ReserveAdmin implements ReserveAdminService.
type ReserveAdmin struct {
	settlementv1.UnimplementedReserveAdminServiceServer
	Findings Findings
}

// ListReserves returns what the last readings found.
func (s *ReserveAdmin) ListReserves(
	ctx context.Context, _ *settlementv1.ListReservesRequest,
) (*settlementv1.ListReservesResponse, error) {
	all, err := s.Findings.Findings(ctx)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListReservesResponse{}
	for _, one := range all {
		out.List = append(out.List, &settlementv1.Reserve{Subject: string(one.Subject), ChainId: int32(one.Chain),
			Held: one.Held.String(), Owed: one.Owed.String(), Short: one.Short(), Halts: one.Confirmed,
			Block: int64(one.At), Since: moment(one.Since), ReadAt: moment(one.ReadAt)})
	}
	return out, nil
}
