// Package moneypb carries rates over the wire.
package moneypb

import (
	"svc.internal/pkg/money"
	moneyv1 "svc.internal/proto/svc/money/v1"
)

// FromRates makes the message of r.
func FromRates(r money.Rates) *moneyv1.Rates {
	return &moneyv1.Rates{
		InputPicoUsdPerToken:        int64(r.Input),
		OutputPicoUsdPerToken:       int64(r.Output),
		PayoutInputPicoUsdPerToken:  int64(r.PayoutInput),
		PayoutOutputPicoUsdPerToken: int64(r.PayoutOutput),
	}
}

// ToRates reads a message; an absent one is all zero.
func ToRates(m *moneyv1.Rates) money.Rates {
	return money.Rates{
		Input:        money.PicoUSD(m.GetInputPicoUsdPerToken()),
		Output:       money.PicoUSD(m.GetOutputPicoUsdPerToken()),
		PayoutInput:  money.PicoUSD(m.GetPayoutInputPicoUsdPerToken()),
		PayoutOutput: money.PicoUSD(m.GetPayoutOutputPicoUsdPerToken()),
	}
}
