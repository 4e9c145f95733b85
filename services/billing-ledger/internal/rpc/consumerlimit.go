package rpc

import (
	"context"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/limit"
)

// ConsumerLimits answers users about the limits of their own accounts.
type ConsumerLimits struct {
	billingv1.UnimplementedConsumerLimitServiceServer
	Spending *account.Spending
	// Defaults count where an account has no limits of its own.
	Defaults limit.Defaults
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
	return &billingv1.GetConsumerLimitsResponse{Limits: s.show(found)}, nil
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
	return &billingv1.SetSpendCapsResponse{Limits: s.show(set)}, nil
}

// show returns limits with the defaults beside them.
func (s *ConsumerLimits) show(l account.SpendLimits) *billingv1.ConsumerLimits {
	m := spendLimitsToProto(l)
	m.Defaults = defaultsToProto(s.Defaults)
	return m
}

func defaultsToProto(d limit.Defaults) *billingv1.DefaultLimits {
	m := &billingv1.DefaultLimits{ZeroPricedRequestsPerMinute: d.ZeroPricedPerMinute, ConcurrentRequests: d.Concurrent}
	for i, n := range d.PerMinute() {
		if category := limit.Class(i + 1).Category(); category != "" {
			m.Categories = append(m.Categories, &billingv1.CategoryRate{Category: category, RequestsPerMinute: n})
		}
	}
	return m
}

func spendLimitsToProto(l account.SpendLimits) *billingv1.ConsumerLimits {
	return &billingv1.ConsumerLimits{
		RequestsPerMinute: l.Limits.RequestsPerMinute, ConcurrentRequests: l.Limits.ConcurrentRequests,
		OwnDayCapUsdStr: amountOf(l.Own.Day), OwnMonthCapUsdStr: amountOf(l.Own.Month),
		Day: spendingToProto(l.Day), Month: spendingToProto(l.Month),
	}
}
