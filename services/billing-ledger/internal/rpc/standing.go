package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
)

// AccountFreezes answers operators who freeze accounts and lift causes.
type AccountFreezes struct {
	billingv1.UnimplementedAccountFreezeAdminServiceServer
	Freezes *account.Freezes
}

// ListFreezes lists the causes of an account.
func (s *AccountFreezes) ListFreezes(
	ctx context.Context, req *billingv1.ListFreezesRequest,
) (*billingv1.ListFreezesResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	list, err := s.Freezes.List(ctx, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.ListFreezesResponse{Freezes: freezesToProto(list)}, nil
}

// FreezeAccount adds an operator's cause.
func (s *AccountFreezes) FreezeAccount(
	ctx context.Context, req *billingv1.FreezeAccountRequest,
) (*billingv1.FreezeAccountResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	list, err := s.Freezes.Freeze(byOperator(ctx), id, req.GetRef(), req.GetNote())
	if err != nil {
		return nil, err
	}
	return &billingv1.FreezeAccountResponse{Freezes: freezesToProto(list)}, nil
}

// LiftFreeze lifts a cause.
func (s *AccountFreezes) LiftFreeze(
	ctx context.Context, req *billingv1.LiftFreezeRequest,
) (*billingv1.LiftFreezeResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	list, err := s.Freezes.Lift(byOperator(ctx), id, account.Cause(req.GetCause()), req.GetRef(), req.GetNote())
	if err != nil {
		return nil, err
	}
	return &billingv1.LiftFreezeResponse{Freezes: freezesToProto(list)}, nil
}

func freezesToProto(list []account.Freeze) []*billingv1.AccountFreeze {
	out := make([]*billingv1.AccountFreeze, len(list))
	for i, f := range list {
		out[i] = &billingv1.AccountFreeze{Cause: string(f.Cause), Text: f.Cause.Text(), Ref: f.Ref,
			At: timestamppb.New(f.At), LiftedAt: timestamp(f.Lifted)}
	}
	return out
}

func debtsToProto(list []account.Debt) []*billingv1.AccountDebt {
	out := make([]*billingv1.AccountDebt, len(list))
	for i, d := range list {
		out[i] = &billingv1.AccountDebt{Ref: d.Ref, OwedUsdStr: d.Owed.String(), PaidUsdStr: d.Paid.String(),
			LeftUsdStr: d.Left().String(), State: string(d.State()), At: timestamppb.New(d.At)}
	}
	return out
}
