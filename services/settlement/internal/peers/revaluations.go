package peers

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/revalue"
)

// CoinBooks says what the books have of coins, and revalues it.
type CoinBooks struct {
	Posting  billingv1.PostingServiceClient
	Balances billingv1.BalanceServiceClient
}

var _ revalue.Books = CoinBooks{}

// Holdings implements revalue.Books.
func (b CoinBooks) Holdings(ctx context.Context) ([]revalue.Holding, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Balances.GetCryptoHoldings(ctx, &billingv1.GetCryptoHoldingsRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask what the books have of coins: %w", err)
	}
	list := make([]revalue.Holding, len(resp.GetHoldings()))
	for i, m := range resp.GetHoldings() {
		list[i] = revalue.Holding{Token: m.GetToken(), Units: m.GetUnits(), Booked: money.NanoUSD(m.GetBookedNanoUsd())}
		if m.GetLast() != nil {
			if list[i].Last, err = revaluationFromProto(m.GetToken(), m.GetLast()); err != nil {
				return nil, fmt.Errorf("the last revaluation of %s: %w", m.GetToken(), err)
			}
		}
	}
	return list, nil
}

func revaluationFromProto(token string, m *billingv1.CryptoRevaluation) (*revalue.Revaluation, error) {
	day, err := time.Parse(time.DateOnly, m.GetDay())
	if err != nil {
		return nil, err
	}
	entry, err := ids.ParseEntry(m.GetEntryId())
	if err != nil {
		return nil, err
	}
	return &revalue.Revaluation{Day: day, Token: token, Units: m.GetUnits(), Booked: money.NanoUSD(m.GetBookedNanoUsd()),
		Worth: money.NanoUSD(m.GetWorthNanoUsd()), Entry: entry, Quote: chain.Quote{
			Rate: money.NanoUSD(m.GetQuote().GetRateNanoUsd()), Source: m.GetQuote().GetSource(),
			At: m.GetQuote().GetAt().AsTime()}}, nil
}

// Revalue implements revalue.Books.
func (b CoinBooks) Revalue(ctx context.Context, r revalue.Revaluation) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	_, err := b.Posting.Post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_Revalued{
		Revalued: &billingv1.Revalued{Day: r.Day.Format(time.DateOnly), BookedNanoUsd: int64(r.Booked),
			Sum: &billingv1.TokenSum{Token: r.Token, Units: r.Units, Quote: &billingv1.TokenQuote{
				RateNanoUsd: int64(r.Quote.Rate), Source: r.Quote.Source, At: timestamppb.New(r.Quote.At)}}}}})
	switch {
	case fault.Is(err, fault.CountsDiffer), fault.Is(err, fault.TransitionNotAllowed):
		return fmt.Errorf("%w: %w", revalue.ErrMoved, err)
	case err != nil:
		return fmt.Errorf("post a revaluation: %w", err)
	}
	return nil
}
