package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// ClosePlanMonth closes a month of plans.
func (s *Posting) ClosePlanMonth(
	ctx context.Context, req *billingv1.ClosePlanMonthRequest,
) (*billingv1.ClosePlanMonthResponse, error) {
	through, err := time.Parse(time.DateOnly, req.GetThrough())
	if err != nil {
		return nil, malformed("through")
	}
	closed, err := s.Months.Close(ctx, posting.Month{
		Month: ledger.Month(req.GetMonth()), Through: through, Pool: money.NanoUSD(req.GetPoolNanoUsd()),
		Earned: money.NanoUSD(req.GetEarnedNanoUsd()), Providers: req.GetProviders(),
	})
	if err != nil {
		return nil, err
	}
	return &billingv1.ClosePlanMonthResponse{PlanMonth: monthToProto(closed)}, nil
}

// GetPlanPool returns what is in the pool of a month.
func (s *Posting) GetPlanPool(
	ctx context.Context, req *billingv1.GetPlanPoolRequest,
) (*billingv1.GetPlanPoolResponse, error) {
	pool, err := s.Months.Pool(ctx, ledger.Month(req.GetMonth()))
	if err != nil {
		return nil, err
	}
	return &billingv1.GetPlanPoolResponse{PoolNanoUsd: int64(pool)}, nil
}

// GetPlanMonth returns a closed month.
func (s *Posting) GetPlanMonth(
	ctx context.Context, req *billingv1.GetPlanMonthRequest,
) (*billingv1.GetPlanMonthResponse, error) {
	closed, err := s.Months.Get(ctx, ledger.Month(req.GetMonth()))
	if err != nil {
		return nil, err
	}
	return &billingv1.GetPlanMonthResponse{PlanMonth: monthToProto(closed)}, nil
}

// ShareReleased pays the share of released earnings.
func (s *Posting) ShareReleased(
	ctx context.Context, req *billingv1.ShareReleasedRequest,
) (*billingv1.ShareReleasedResponse, error) {
	request, err := ids.ParseRequest(req.GetRequestId())
	if err != nil {
		return nil, malformed("request_id")
	}
	id, err := s.Months.ShareReleased(ctx, request)
	if err != nil {
		return nil, err
	}
	return &billingv1.ShareReleasedResponse{EntryId: id.String()}, nil
}

// ListPlanShares lists the shares of a closed month.
func (s *Posting) ListPlanShares(
	ctx context.Context, req *billingv1.ListPlanSharesRequest,
) (*billingv1.ListPlanSharesResponse, error) {
	shares, next, err := s.Months.Shares(ctx, ledger.Month(req.GetMonth()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListPlanSharesResponse{NextPageToken: next, Shares: make([]*billingv1.PlanShare, len(shares))}
	for i, s := range shares {
		m.Shares[i] = &billingv1.PlanShare{
			ProviderId: s.Provider.String(), EarnedNanoUsd: int64(s.Earned), PaidNanoUsd: int64(s.Paid),
			WithheldNanoUsd: int64(s.Withheld), WithheldPaidNanoUsd: int64(s.WithheldPaid),
		}
	}
	return m, nil
}

func monthToProto(c posting.Closed) *billingv1.PlanMonth {
	return &billingv1.PlanMonth{
		Month: string(c.Month.Month), Through: c.Through.Format(time.DateOnly), PoolNanoUsd: int64(c.Pool),
		EarnedNanoUsd: int64(c.Earned), PaidNanoUsd: int64(c.Paid), Providers: c.Providers, ClosedAt: timestamppb.New(c.At),
	}
}
