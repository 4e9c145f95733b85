package rpc

import (
	"context"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/demand"
	"svc.internal/services/billing-ledger/internal/stats"
)

// Demand answers gateways.
type Demand struct {
	billingv1.UnimplementedDemandServiceServer
	Cache *demand.Cache
}

// ListModelDemand sums the demand of the last 24 hours. Its numbers are rounded as the public
// figures are, because gateways show them to anybody: exact ones would tell by their differences
// what one consumer did.
func (s *Demand) ListModelDemand(
	ctx context.Context, _ *billingv1.ListModelDemandRequest,
) (*billingv1.ListModelDemandResponse, error) {
	models, err := s.Cache.Models(ctx)
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListModelDemandResponse{Models: make([]*billingv1.ModelDemand, len(models))}
	for i, d := range models {
		mean := d.MeanLatency()
		m.Models[i] = &billingv1.ModelDemand{
			ModelId: d.ID, Requests_24H: stats.Rounded(d.Requests), RequestsBefore: stats.Rounded(d.Before),
			Tokens_24H: stats.Rounded(d.Tokens), Revenue_24HNanoUsd: stats.Rounded(int64(d.Revenue)),
			Payout_24HNanoUsd: stats.Rounded(int64(d.Payout)), AvgLatencyMs: float64(stats.Rounded(mean.Milliseconds())),
		}
	}
	return m, nil
}
