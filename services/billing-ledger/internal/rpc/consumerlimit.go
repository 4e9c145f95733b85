package rpc

import (
	"context"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
)

// ConsumerLimits answers users about the limits of their own accounts.
type ConsumerLimits struct {
	billingv1.UnimplementedConsumerLimitServiceServer
	Spending *account.Spending
}

// GetConsumerLimits reads the limits of the account.
func (s *ConsumerLimits) GetConsumerLimits(
	ctx context.Context, _ *billingv1.GetConsumerLimitsRequest,
) (*billingv1.GetConsumerLimitsResponse, error) {
	id, err := ownAccount(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.Spending.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetConsumerLimitsResponse{Limits: spendLimitsToProto(found)}, nil
}

// SetSpendCaps replaces the account's own spend caps.
func (s *ConsumerLimits) SetSpendCaps(
	ctx context.Context, req *billingv1.SetSpendCapsRequest,
) (*billingv1.SetSpendCapsResponse, error) {
	id, err := ownAccount(ctx)
	if err != nil {
		return nil, err
	}
	caps, err := capsOf(req.GetDayCapUsd(), req.GetMonthCapUsd())
	if err != nil {
		return nil, err
	}
	set, err := s.Spending.SetCaps(ctx, id, caps)
	if err != nil {
		return nil, err
	}
	return &billingv1.SetSpendCapsResponse{Limits: spendLimitsToProto(set)}, nil
}

func spendLimitsToProto(l account.SpendLimits) *billingv1.ConsumerLimits {
	return &billingv1.ConsumerLimits{
		RequestsPerMinute: l.Limits.RequestsPerMinute, ConcurrentRequests: l.Limits.ConcurrentRequests,
		OwnDayCapUsdStr: amountOf(l.Own.Day), OwnMonthCapUsdStr: amountOf(l.Own.Month),
		Day: spendingToProto(l.Day), Month: spendingToProto(l.Month),
	}
}
