package rpc

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// Subscriptions sells plans to users who are signed in.
type Subscriptions struct {
	billingv1.UnimplementedSubscriptionServiceServer
	Sales *subscription.Sales
}

// GetSubscription shows the subscription of the account.
func (s *Subscriptions) GetSubscription(
	ctx context.Context, _ *billingv1.GetSubscriptionRequest,
) (*billingv1.GetSubscriptionResponse, error) {
	account, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.Sales.Get(ctx, account)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetSubscriptionResponse{Subscription: subscriptionToProto(v)}, nil
}

// Subscribe opens a page on which a plan is bought.
func (s *Subscriptions) Subscribe(
	ctx context.Context, req *billingv1.SubscribeRequest,
) (*billingv1.SubscribeResponse, error) {
	account, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	key := idempotencyKey(ctx, "")
	if !isIdempotencyKey(key) {
		return nil, fault.New(fault.Invalid, fault.InvalidValue,
			"Idempotency-Key must have 1 to %d printable characters", maxIdempotencyKey).On("Idempotency-Key")
	}
	v, err := s.Sales.Subscribe(ctx, account,
		subscription.Order{Plan: req.GetPlan(), ReturnURL: req.GetReturnUrl(), Key: key})
	if err != nil {
		return nil, err
	}
	return &billingv1.SubscribeResponse{Url: v.URL, Subscription: subscriptionToProto(v)}, nil
}

// CancelSubscription has the subscription end with its period.
func (s *Subscriptions) CancelSubscription(
	ctx context.Context, _ *billingv1.CancelSubscriptionRequest,
) (*billingv1.CancelSubscriptionResponse, error) {
	account, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.Sales.Cancel(ctx, account)
	if err != nil {
		return nil, err
	}
	return &billingv1.CancelSubscriptionResponse{Subscription: subscriptionToProto(v)}, nil
}

// noSubscription is the state of an account that never had one.
const noSubscription = "none"

func subscriptionToProto(v subscription.View) *billingv1.PlanSubscription {
	m := &billingv1.PlanSubscription{State: noSubscription, Url: v.URL}
	if v.State != "" {
		m.State, m.Plan, m.PriceUsdStr = string(v.State), v.Plan, v.Price.String()
		m.CancelAtPeriodEnd, m.EndedBecause = v.Cancel, string(v.Cause)
		m.PeriodStart, m.PeriodEnd = timestamp(v.PeriodStart), timestamp(v.PeriodEnd)
	}
	if v.InForce == nil {
		return m
	}
	m.PlanInForce, m.InForceUntil = v.InForce.Plan, timestamp(v.InForce.Until)
	for _, c := range v.InForce.Counters {
		if !c.Enabled {
			continue
		}
		used, bound := planAmounts(c)
		m.Limits = append(m.Limits, &billingv1.SubscriptionLimit{Kind: string(c.Kind), Period: c.Period, Used: used,
			Cap: bound, ResetsAt: timestamp(c.WindowEnd)})
	}
	return m
}

// planAmounts returns what is used of a counter, and its cap; of list prices in US dollars.
func planAmounts(c plan.Counter) (used, bound float64) {
	if c.Kind == plan.ListPrice {
		return money.NanoUSD(c.Used).Float(), money.NanoUSD(c.Cap).Float()
	}
	return float64(c.Used), float64(c.Cap)
}

// SubscriptionAdmin answers operators.
type SubscriptionAdmin struct {
	billingv1.UnimplementedSubscriptionAdminServiceServer
	Sales *subscription.Sales
}

// ListPlanInvoices lists the paid periods of an account. A malformed id is not found either.
func (s *SubscriptionAdmin) ListPlanInvoices(
	ctx context.Context, req *billingv1.ListPlanInvoicesRequest,
) (*billingv1.ListPlanInvoicesResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	list, err := s.Sales.Invoices(ctx, id)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListPlanInvoicesResponse{}
	for _, i := range list {
		resp.List = append(resp.List, &billingv1.PlanInvoice{InvoiceId: i.ID, Plan: i.Plan, AmountUsdStr: i.Amount.String(),
			ReturnedUsdStr: i.Returned.String(), PeriodStart: timestamp(i.PeriodStart), PeriodEnd: timestamp(i.PeriodEnd),
			PaidAt: timestamp(i.PaidAt), Month: i.Month, RefundCause: i.RefundCause, RefundOpen: i.RefundOpen,
			EndsSubscription: i.Ends})
	}
	return resp, nil
}

// RefundPlanInvoice gives the price of a paid period back.
func (s *SubscriptionAdmin) RefundPlanInvoice(
	ctx context.Context, req *billingv1.RefundPlanInvoiceRequest,
) (*billingv1.RefundPlanInvoiceResponse, error) {
	if err := s.Sales.Refund(byOperator(ctx), req.GetInvoiceId(), req.GetMemo()); err != nil {
		return nil, err
	}
	return &billingv1.RefundPlanInvoiceResponse{}, nil
}
