package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/earning"
)

// ListHeldEarnings reads a page of held earnings.
func (s *Accounts) ListHeldEarnings(
	ctx context.Context, req *billingv1.ListHeldEarningsRequest,
) (*billingv1.ListHeldEarningsResponse, error) {
	var provider ids.ProviderID
	if text := req.GetProviderId(); text != "" {
		var err error
		if provider, err = ids.ParseProvider(text); err != nil {
			return nil, fault.New(fault.Invalid, fault.InvalidValue, "provider_id must be the id of a provider").On(
				"provider_id")
		}
	}
	list, next, err := earning.ListHeld(ctx, s.Earnings, provider, int(req.GetPageSize()), req.GetCursor())
	if err != nil {
		return nil, err
	}
	return &billingv1.ListHeldEarningsResponse{List: heldToProto(list), NextCursor: next}, nil
}

// ReleaseHeldEarnings releases held earnings, so that they may be paid. A malformed
// request id is as unknown as any other.
func (s *Accounts) ReleaseHeldEarnings(
	ctx context.Context, req *billingv1.ReleaseHeldEarningsRequest,
) (*billingv1.ReleaseHeldEarningsResponse, error) {
	requests, err := heldRequests(req.GetRequestIds())
	if err != nil {
		return nil, err
	}
	list, err := earning.Release(byOperator(ctx), s.Earnings, requests, req.GetReason())
	if err != nil {
		return nil, err
	}
	return &billingv1.ReleaseHeldEarningsResponse{List: heldToProto(list)}, nil
}

// ForfeitHeldEarnings takes held earnings from their providers.
func (s *Accounts) ForfeitHeldEarnings(
	ctx context.Context, req *billingv1.ForfeitHeldEarningsRequest,
) (*billingv1.ForfeitHeldEarningsResponse, error) {
	requests, err := heldRequests(req.GetRequestIds())
	if err != nil {
		return nil, err
	}
	list, err := earning.Forfeit(byOperator(ctx), s.Earnings, s.NewEntry, requests, req.GetReason())
	if err != nil {
		return nil, err
	}
	return &billingv1.ForfeitHeldEarningsResponse{List: heldToProto(list)}, nil
}

// heldRequests reads the ids of requests. One id beyond the bound is enough to be refused for.
func heldRequests(texts []string) ([]ids.RequestID, error) {
	var requests []ids.RequestID
	for _, text := range texts[:min(len(texts), earning.MaxRelease+1)] {
		id, err := ids.ParseRequest(text)
		if err != nil {
			return nil, earning.NotFound(text)
		}
		requests = append(requests, id)
	}
	return requests, nil
}

func heldToProto(list []earning.Held) []*billingv1.HeldEarning {
	out := make([]*billingv1.HeldEarning, len(list))
	for i, h := range list {
		out[i] = &billingv1.HeldEarning{
			RequestId: h.Request.String(), AccountId: h.Account.String(), ProviderId: h.Provider.String(),
			Rule: string(h.Rule), PlanMonth: h.PlanMonth, PayoutUsd: h.Payout.Float(), PayoutUsdStr: h.Payout.String(),
			HeldAt: timestamppb.New(h.HeldAt), State: string(h.Ended), EndedAt: timestamp(h.EndedAt), Reason: h.Reason,
		}
		if h.Ended == "" {
			out[i].State = "held"
		}
	}
	return out
}
