package rpc

import (
	"context"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/penalty"
)

// PenaltyAdmin implements PenaltyAdminService. The history of a penalty names the operator
// who decided.
type PenaltyAdmin struct {
	settlementv1.UnimplementedPenaltyAdminServiceServer
	Keeper *penalty.Keeper
	Parts  PenaltyParts
}

// ResolvePenalty decides an appeal, or reverses a penalty.
func (s *PenaltyAdmin) ResolvePenalty(
	ctx context.Context, req *settlementv1.ResolvePenaltyRequest,
) (*settlementv1.ResolvePenaltyResponse, error) {
	id, err := penaltyID(req.GetPenaltyId())
	if err != nil {
		return nil, err
	}
	by := actor.WithOperator(ctx, serve.Operator(ctx))
	p, err := s.Keeper.Resolve(by, id, req.GetUphold(), req.GetReason())
	if err != nil {
		return nil, err
	}
	out, err := s.Parts.one(ctx, p)
	if err != nil {
		return nil, err
	}
	return &settlementv1.ResolvePenaltyResponse{Penalty: out}, nil
}

// ListAllPenalties is one page of the penalties in a state, newest first.
func (s *PenaltyAdmin) ListAllPenalties(
	ctx context.Context, req *settlementv1.ListAllPenaltiesRequest,
) (*settlementv1.ListAllPenaltiesResponse, error) {
	state, err := stateFromProto(req.GetState())
	if err != nil {
		return nil, err
	}
	page, err := s.Keeper.InState(ctx, state, int(req.GetPage()), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	list, err := s.Parts.all(ctx, page.List)
	if err != nil {
		return nil, err
	}
	return &settlementv1.ListAllPenaltiesResponse{
		List: list, Total: int32(page.Total), Page: int32(page.Number), PageSize: int32(page.Length),
	}, nil
}

// stateFromProto is empty for all states.
func stateFromProto(s settlementv1.PenaltyState) (penalty.State, error) {
	if s == settlementv1.PenaltyState_PENALTY_STATE_UNSPECIFIED {
		return "", nil
	}
	for state, of := range states {
		if of == s {
			return state, nil
		}
	}
	return "", fault.New(fault.Invalid, fault.InvalidValue, "state is not a penalty's state").On("state")
}
