package peers

import (
	"context"
	"fmt"

	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/reserve"
)

// ReserveBooks is billing-ledger as reserves see it; it implements reserve.Ledger.
type ReserveBooks struct {
	Accruals billingv1.AccrualServiceClient
}

var _ reserve.Ledger = ReserveBooks{}

// Sheet implements reserve.Ledger.
func (b ReserveBooks) Sheet(ctx context.Context) (reserve.Sheet, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	m, err := b.Accruals.GetBooks(ctx, &billingv1.GetBooksRequest{})
	if err != nil {
		return reserve.Sheet{}, fmt.Errorf("ask for the books: %w", err)
	}
	s := reserve.Sheet{Tokens: map[string]int64{},
		Crypto: money.NanoUSD(m.GetCryptoNanoUsd()), Card: money.NanoUSD(m.GetCardNanoUsd()),
		Bank: money.NanoUSD(m.GetBankNanoUsd()), Consumers: money.NanoUSD(m.GetConsumersNanoUsd()),
		Providers: money.NanoUSD(m.GetProvidersNanoUsd()), Others: money.NanoUSD(m.GetOthersNanoUsd()),
		At: m.GetAt().AsTime()}
	for _, t := range m.GetTokens() {
		s.Tokens[t.GetToken()] = t.GetUnits()
	}
	return s, nil
}
