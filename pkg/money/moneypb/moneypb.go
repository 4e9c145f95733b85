// Package moneypb carries rates over the wire.
package moneypb

import (
	"math"

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
		Unit:                        FromUnit(r.Unit),

		PayoutCachedInputPicoUsdPerToken: int64(r.PayoutCachedInput),
	}
}

// ToRates reads a message; an absent one is all zero. A unit this build does not
// know is kept, so that Validate refuses it and no other rates equal it.
func ToRates(m *moneyv1.Rates) money.Rates {
	return money.Rates{
		Unit:         ToUnit(m.GetUnit()),
		Input:        money.PicoUSD(m.GetInputPicoUsdPerToken()),
		Output:       money.PicoUSD(m.GetOutputPicoUsdPerToken()),
		PayoutInput:  money.PicoUSD(m.GetPayoutInputPicoUsdPerToken()),
		PayoutOutput: money.PicoUSD(m.GetPayoutOutputPicoUsdPerToken()),

		PayoutCachedInput: money.PicoUSD(m.GetPayoutCachedInputPicoUsdPerToken()),
	}
}

// FromUnit is the message of u.
func FromUnit(u money.Unit) moneyv1.Unit { return moneyv1.Unit(u) + moneyv1.Unit_UNIT_TOKEN }

// ToUnit reads a unit; an absent one is money.Token, as of senders from before
// there were units. One out of range becomes a unit that no Validate accepts.
func ToUnit(u moneyv1.Unit) money.Unit {
	switch {
	case u == moneyv1.Unit_UNIT_UNSPECIFIED:
		return money.Token
	case u < 0 || u > math.MaxInt8:
		return -1
	}
	return money.Unit(u - moneyv1.Unit_UNIT_TOKEN)
}
