package rpc

import (
	"context"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/demand"
)

// Demand answers gateways.
type Demand struct {
	billingv1.UnimplementedDemandServiceServer
	Cache *demand.Cache
}

// ListModelDemand sums the demand of the last 24 hours.
func (s *Demand) ListModelDemand(
	ctx context.Context, _ *billingv1.ListModelDemandRequest,
) (*billingv1.ListModelDemandResponse, error) {
	models, err := s.Cache.Models(ctx)
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListModelDemandResponse{Models: make([]*billingv1.ModelDemand, len(models))}
	for i, d := range models {
		m.Models[i] = &billingv1.ModelDemand{
			ModelId: d.ID, Requests_24H: d.Requests, RequestsBefore: d.Before, Tokens_24H: d.Tokens,
			Revenue_24HNanoUsd: int64(d.Revenue), Payout_24HNanoUsd: int64(d.Payout),
			AvgLatencyMs: float64(d.MeanLatency()) / float64(time.Millisecond),
		}
	}
	return m, nil
}
