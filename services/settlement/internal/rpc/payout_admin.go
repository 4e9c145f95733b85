package rpc

import (
	"context"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// Halts lists and lifts halts of chains.
type Halts interface {
	Halts(ctx context.Context) ([]sending.Halt, error)
	Lift(ctx context.Context, id chain.ID, cause sending.Cause, actor, reason string) error
}

// PayoutAdmin implements PayoutAdminService. The history of a payout names the operator who decided.
type PayoutAdmin struct {
	settlementv1.UnimplementedPayoutAdminServiceServer
	Keeper *payout.Keeper
	Halts  Halts
}

// ListAllPayouts is one page of the payouts in a state.
func (s *PayoutAdmin) ListAllPayouts(
	ctx context.Context, req *settlementv1.ListAllPayoutsRequest,
) (*settlementv1.ListAllPayoutsResponse, error) {
	state, err := payoutStateFromProto(req.GetState())
	if err != nil {
		return nil, err
	}
	page, err := s.Keeper.InState(ctx, state, int(req.GetPage()), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListAllPayoutsResponse{Total: int32(page.Total), Page: int32(page.Number),
		PageSize: int32(page.Length)}
	for _, p := range page.List {
		out.List = append(out.List, payoutToProto(s.Keeper, p))
	}
	return out, nil
}

// payoutStateFromProto is empty for all states.
func payoutStateFromProto(s settlementv1.PayoutState) (payout.State, error) {
	if s == settlementv1.PayoutState_PAYOUT_STATE_UNSPECIFIED {
		return "", nil
	}
	for state, of := range payoutStates {
		if of == s {
			return state, nil
		}
	}
	return "", fault.New(fault.Invalid, fault.InvalidValue, "state is not a payout's state").On("state")
}

// decide has an operator decide on a payout.
func (s *PayoutAdmin) decide(
	ctx context.Context, id, reason string, do func(context.Context, payout.ID, string) (payout.Payout, error),
) (*settlementv1.Payout, error) {
	of, err := payoutID(id)
	if err != nil {
		return nil, err
	}
	p, err := do(actor.WithOperator(ctx, serve.Operator(ctx)), of, reason)
	if err != nil {
		return nil, err
	}
	return payoutToProto(s.Keeper, p), nil
}

// ApprovePayout is an operator's consent.
func (s *PayoutAdmin) ApprovePayout(
	ctx context.Context, req *settlementv1.ApprovePayoutRequest,
) (*settlementv1.ApprovePayoutResponse, error) {
	p, err := s.decide(ctx, req.GetPayoutId(), req.GetReason(), s.Keeper.Approve)
	if err != nil {
		return nil, err
	}
	return &settlementv1.ApprovePayoutResponse{Payout: p}, nil
}

// CancelAnyPayout takes a payout back.
func (s *PayoutAdmin) CancelAnyPayout(
	ctx context.Context, req *settlementv1.CancelAnyPayoutRequest,
) (*settlementv1.CancelAnyPayoutResponse, error) {
	p, err := s.decide(ctx, req.GetPayoutId(), req.GetReason(), s.Keeper.CancelAny)
	if err != nil {
		return nil, err
	}
	return &settlementv1.CancelAnyPayoutResponse{Payout: p}, nil
}

// CancelPayoutOnChain takes the nonce of a payout's transaction.
func (s *PayoutAdmin) CancelPayoutOnChain(
	ctx context.Context, req *settlementv1.CancelPayoutOnChainRequest,
) (*settlementv1.CancelPayoutOnChainResponse, error) {
	p, err := s.decide(ctx, req.GetPayoutId(), req.GetReason(), s.Keeper.CancelOnChain)
	if err != nil {
		return nil, err
	}
	return &settlementv1.CancelPayoutOnChainResponse{Payout: p}, nil
}

// ListSendingHalts lists open halts.
func (s *PayoutAdmin) ListSendingHalts(
	ctx context.Context, _ *settlementv1.ListSendingHaltsRequest,
) (*settlementv1.ListSendingHaltsResponse, error) {
	halts, err := s.Halts.Halts(ctx)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListSendingHaltsResponse{}
	for _, h := range halts {
		out.List = append(out.List, &settlementv1.SendingHalt{ChainId: int32(h.Chain), Cause: string(h.Cause),
			Detail: h.Detail, Since: moment(h.Since)})
	}
	return out, nil
}

// LiftSendingHalt lifts a halt.
func (s *PayoutAdmin) LiftSendingHalt(
	ctx context.Context, req *settlementv1.LiftSendingHaltRequest,
) (*settlementv1.LiftSendingHaltResponse, error) {
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	by := actor.OfOperator(actor.WithOperator(ctx, serve.Operator(ctx)))
	err := s.Halts.Lift(ctx, chain.ID(max(req.GetChainId(), 0)), sending.Cause(req.GetCause()), by, req.GetReason())
	if err != nil {
		return nil, err
	}
	return &settlementv1.LiftSendingHaltResponse{}, nil
}
