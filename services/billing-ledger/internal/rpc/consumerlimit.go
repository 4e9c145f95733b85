package rpc

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/limit"
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

// bound reads an amount of dollars that may be left out.
func bound(text, field string) (*money.NanoUSD, error) {
	if text == "" {
		return nil, nil
	}
	amount, err := money.ParseUSD(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "%s must be a decimal with at most nine decimals", field).On(
			field)
	}
	return &amount, nil
}

// capsOf reads the caps of a day and of a month.
func capsOf(day, month string) (caps limit.Caps, err error) {
	if caps.Day, err = bound(day, "day_cap_usd"); err != nil {
		return limit.Caps{}, err
	}
	caps.Month, err = bound(month, "month_cap_usd")
	return caps, err
}

// amountOf writes an amount that bound reads.
func amountOf(amount *money.NanoUSD) string {
	if amount == nil {
		return ""
	}
	return amount.String()
}

func spendLimitsToProto(l account.SpendLimits) *billingv1.ConsumerLimits {
	return &billingv1.ConsumerLimits{
		RequestsPerMinute: l.Limits.RequestsPerMinute, ConcurrentRequests: l.Limits.ConcurrentRequests,
		OwnDayCapUsdStr: amountOf(l.Own.Day), OwnMonthCapUsdStr: amountOf(l.Own.Month),
		Day: spendingToProto(l.Day), Month: spendingToProto(l.Month),
	}
}

func spendingToProto(s *limit.Spending) *billingv1.SpendBound {
	if s == nil {
		return nil
	}
	return &billingv1.SpendBound{
		BoundUsd: s.Amount.Float(), BoundUsdStr: s.Amount.String(), Period: string(s.Period),
		SpentUsd: s.Spent.Float(), SpentUsdStr: s.Spent.String(), HeldUsd: s.Held.Float(), HeldUsdStr: s.Held.String(),
		LeftUsd: s.Left().Float(), LeftUsdStr: s.Left().String(), ResetsAt: timestamp(s.ResetsAt),
	}
}
