package rpc

import (
	"context"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/paging"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
)

// CollateralAdmin implements CollateralAdminService.
type CollateralAdmin struct {
	settlementv1.UnimplementedCollateralAdminServiceServer
	Store CollateralStore
	Terms position.Terms
	// Confirm records that an operator pays a refund from the bank.
	Confirm func(ctx context.Context, id refund.ID, operator, reference string) (refund.Refund, error)
}

// ListRefunds is one page of refunds, the newest first.
func (s *CollateralAdmin) ListRefunds(
	ctx context.Context, req *settlementv1.ListRefundsRequest,
) (*settlementv1.ListRefundsResponse, error) {
	var state refund.State
	if req.GetState() != settlementv1.RefundState_REFUND_STATE_UNSPECIFIED {
		for of, enum := range refundStates {
			if enum == req.GetState() {
				state = of
			}
		}
		if state == "" {
			return nil, fault.New(fault.Invalid, fault.InvalidValue, "state is not a refund's state").On("state")
		}
	}
	page, err := paging.Read(int(req.GetPage()), int(req.GetPageSize()),
		func(offset, limit int) ([]refund.Refund, int, error) { return s.Store.List(ctx, state, offset, limit) })
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListRefundsResponse{Total: int32(page.Total), Page: int32(page.Number),
		PageSize: int32(page.Length)}
	for _, r := range page.List {
		out.List = append(out.List, refundToProto(r))
	}
	return out, nil
}

// GetProviderCollateral says what stands behind a provider.
func (s *CollateralAdmin) GetProviderCollateral(
	ctx context.Context, req *settlementv1.GetProviderCollateralRequest,
) (*settlementv1.GetProviderCollateralResponse, error) {
	id, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	view, err := collateralOf(ctx, s.Store, s.Terms, id)
	if err != nil {
		return nil, err
	}
	return &settlementv1.GetProviderCollateralResponse{Collateral: view}, nil
}

// maxBankReference bounds the reference of a transfer, in characters.
const maxBankReference = 200

// ConfirmBankRefund records that an operator pays what a card could not take back.
func (s *CollateralAdmin) ConfirmBankRefund(
	ctx context.Context, req *settlementv1.ConfirmBankRefundRequest,
) (*settlementv1.ConfirmBankRefundResponse, error) {
	var id refund.ID
	if err := id.Scan(req.GetRefundId()); err != nil {
		return nil, fault.New(fault.NotFound, refund.NotFound, "there is no such refund").On("refund_id")
	}
	if err := checkText("reference", req.GetReference(), maxBankReference); err != nil {
		return nil, err
	}
	by := actor.OfOperator(actor.WithOperator(ctx, serve.Operator(ctx)))
	r, err := s.Confirm(ctx, id, by, req.GetReference())
	if err != nil {
		return nil, err
	}
	return &settlementv1.ConfirmBankRefundResponse{Refund: refundToProto(r)}, nil
}
