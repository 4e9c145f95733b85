package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/posting"
)

// Balances tells settlement what the books have.
type Balances struct {
	billingv1.UnimplementedBalanceServiceServer
	Store posting.HoldingStore
}

// GetCryptoHoldings returns what the books have of every token.
func (s *Balances) GetCryptoHoldings(
	ctx context.Context, _ *billingv1.GetCryptoHoldingsRequest,
) (*billingv1.GetCryptoHoldingsResponse, error) {
	list, err := s.Store.Holdings(ctx)
	if err != nil {
		return nil, err
	}
	m := &billingv1.GetCryptoHoldingsResponse{Holdings: make([]*billingv1.CryptoHolding, len(list))}
	for i, h := range list {
		m.Holdings[i] = &billingv1.CryptoHolding{Token: string(h.Token), Units: int64(h.Units),
			BookedNanoUsd: int64(h.Booked), Last: revaluationToProto(h.Last)}
	}
	return m, nil
}

func revaluationToProto(r *posting.Revaluation) *billingv1.CryptoRevaluation {
	if r == nil {
		return nil
	}
	return &billingv1.CryptoRevaluation{Day: r.Day.Format(time.DateOnly), Units: int64(r.Units),
		BookedNanoUsd: int64(r.Booked), WorthNanoUsd: int64(r.Worth), EntryId: r.Entry.String(),
		Quote: &billingv1.TokenQuote{RateNanoUsd: int64(r.Quote.Rate), Source: r.Quote.Source,
			At: timestamppb.New(r.Quote.At)}}
}
