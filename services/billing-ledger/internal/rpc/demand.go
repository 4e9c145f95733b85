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
	// Figures say which models enough accounts use.
	Figures *stats.Cache
}

// ListModelDemand sums the demand of 24 whole hours. Gateways show it to anybody, so it tells no
// more than the public figures do: it leaves out the models that have none, and its numbers are
// rounded as those figures are. Others would tell by their differences what one consumer did.
func (s *Demand) ListModelDemand(
	ctx context.Context, _ *billingv1.ListModelDemandRequest,
) (*billingv1.ListModelDemandResponse, error) {
	models, err := s.Cache.Models(ctx)
	if err != nil {
		return nil, err
	}
	figures, err := s.Figures.Answer(ctx)
	if err != nil {
		return nil, err
	}
	shown := make(map[string]bool, len(figures.Models))
	for _, f := range figures.Models {
		shown[f.Model] = true
	}
	m := &billingv1.ListModelDemandResponse{}
	for _, d := range models {
		if !shown[d.ID] {
			continue
		}
		mean := d.MeanLatency()
		m.Models = append(m.Models, &billingv1.ModelDemand{
			ModelId: d.ID, Requests_24H: stats.Rounded(d.Requests), RequestsBefore: stats.Rounded(d.Before),
			Tokens_24H: stats.Rounded(d.Tokens), Revenue_24HNanoUsd: stats.Rounded(int64(d.Revenue)),
			Payout_24HNanoUsd: stats.Rounded(int64(d.Payout)), AvgLatencyMs: float64(stats.Rounded(mean.Milliseconds())),
		})
	}
	return m, nil
}
