package rpc

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
)

// GetBooks says what the platform holds and what it owes.
func (s *Accruals) GetBooks(ctx context.Context, _ *billingv1.GetBooksRequest) (*billingv1.GetBooksResponse, error) {
	b, err := s.Store.Books(ctx)
	if err != nil {
		return nil, err
	}
	m := &billingv1.GetBooksResponse{
		CryptoNanoUsd: int64(b.Crypto), CardNanoUsd: int64(b.Card), BankNanoUsd: int64(b.Bank),
		ConsumersNanoUsd: int64(b.Consumers), ProvidersNanoUsd: int64(b.Providers), OthersNanoUsd: int64(b.Others),
		At: timestamppb.New(b.At),
	}
	for token, units := range b.Tokens {
		m.Tokens = append(m.Tokens, &billingv1.TokenHeld{Token: token, Units: units})
	}
	slices.SortFunc(m.Tokens, func(a, b *billingv1.TokenHeld) int { return cmp.Compare(a.GetToken(), b.GetToken()) })
	return m, nil
}
