package rpc

import (
	"context"
	"time"

	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Accruals answers settlement.
type Accruals struct {
	billingv1.UnimplementedAccrualServiceServer
	Store interface {
		earning.AccrualStore
		earning.SettledStore
		earning.SealedStore
		earning.BalanceStore
		earning.BooksStore
		earning.PayoutStore
	}
}

// ListAccruals sums what providers were credited.
func (s *Accruals) ListAccruals(
	ctx context.Context, req *billingv1.ListAccrualsRequest,
) (*billingv1.ListAccrualsResponse, error) {
	rows, next, err := earning.ListAccruals(ctx, s.Store, req.GetFirstDay(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListAccrualsResponse{NextPageToken: next, Accruals: make([]*billingv1.Accrual, len(rows))}
	for i, r := range rows {
		m.Accruals[i] = &billingv1.Accrual{
			Day: r.Day.Format(time.DateOnly), ProviderId: r.Provider.String(),
			PayoutNanoUsd: int64(r.Payout), Requests: r.Requests,
		}
	}
	return m, nil
}

// ListSettled lists settled requests one by one.
func (s *Accruals) ListSettled(
	ctx context.Context, req *billingv1.ListSettledRequest,
) (*billingv1.ListSettledResponse, error) {
	rows, next, more, err := earning.ListSettled(ctx, s.Store, req.GetSince().AsTime(), req.GetWatermark(),
		req.GetSettledFor().AsDuration())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListSettledResponse{Watermark: next, More: more, Settled: make([]*billingv1.SettledRequest, len(rows))}
	for i, r := range rows {
		m.Settled[i] = &billingv1.SettledRequest{
			RequestId: r.Request.String(), ProviderId: r.Provider.String(), PriceVersionId: r.Price.String(),
			ModelId: r.Model, Attempt: uint32(r.Attempt),
			PromptTokens: r.Billable.Prompt, CompletionTokens: r.Billable.Completion,
			Rates: moneypb.FromRates(r.Rates), PayoutNanoUsd: int64(r.Payout),
			EvidenceSource: evidenceSourceToProto(r.EvidenceSource),
		}
	}
	return m, nil
}

func evidenceSourceToProto(w usage.EvidenceSource) eventsv1.EvidenceSource {
	switch w {
	case usage.Hub:
		return eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB
	case usage.Gateway:
		return eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	case usage.WorkReceipt:
		return eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT
	default:
		return eventsv1.EvidenceSource_EVIDENCE_SOURCE_UNSPECIFIED
	}
}
