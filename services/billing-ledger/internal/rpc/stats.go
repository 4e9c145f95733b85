package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/stats"
)

// Stats answers gateways.
type Stats struct {
	billingv1.UnimplementedStatsServiceServer
	Cache *stats.Cache
}

// GetStats sums up what gateways reported.
func (s *Stats) GetStats(ctx context.Context, _ *billingv1.GetStatsRequest) (*billingv1.GetStatsResponse, error) {
	a, err := s.Cache.Answer(ctx)
	if err != nil {
		return nil, err
	}
	m := &billingv1.GetStatsResponse{
		MadeAt: timestamppb.New(a.MadeAt), Requests_1H: a.LastHour, RequestsPrevious_24H: a.DayBefore,
		Last_24H: shownToProto(a.LastDay),
	}
	for _, d := range a.Days {
		m.Days = append(m.Days, &billingv1.DayFigures{
			Day: d.Day.Format(time.DateOnly), Figures: shownToProto(d.Figures),
		})
	}
	for _, f := range a.Models {
		m.Models = append(m.Models, &billingv1.ModelFigures{ModelId: f.Model, Figures: figuresToProto(f.Figures)})
	}
	for _, f := range a.Providers {
		m.Providers = append(m.Providers, &billingv1.ProviderFigures{
			ProviderId: f.Provider.String(), Figures: figuresToProto(f.Figures),
		})
	}
	return m, nil
}

// shownToProto returns a message without figures for those that are withheld.
func shownToProto(f *stats.Figures) *billingv1.RequestFigures {
	if f == nil {
		return &billingv1.RequestFigures{}
	}
	return figuresToProto(*f)
}

func figuresToProto(f stats.Figures) *billingv1.RequestFigures {
	return &billingv1.RequestFigures{
		Requests: &f.Requests, Tokens: &f.Tokens, SuccessRate: f.SuccessRate, RetriedShare: f.RetriedShare,
		TtftMsP50: f.FirstContentP50, TtftMsP95: f.FirstContentP95, TokensPerSecondP50: f.SpeedP50,
	}
}
