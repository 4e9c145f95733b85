package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/limit"
)

// ownAccount returns the account of the user for whom a call is made.
func ownAccount(ctx context.Context) (ids.AccountID, error) {
	who, ok := serve.User(ctx)
	id, err := ids.ParseAccount(who.Account)
	if !ok || err != nil || id.IsZero() {
		return ids.AccountID{}, fault.New(fault.Unauthenticated, fault.InvalidSession, "the call is made for nobody")
	}
	return id, nil
}

// moment reads a time that may be absent. The zero time would mean the same as none.
func moment(ts *timestamppb.Timestamp, field string) (time.Time, error) {
	if ts == nil {
		return time.Time{}, nil
	}
	at := ts.AsTime()
	if !ts.IsValid() || at.IsZero() {
		return time.Time{}, malformed(field)
	}
	return at, nil
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
