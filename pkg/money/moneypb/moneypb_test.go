package moneypb

import (
	"math"
	"testing"

	"svc.internal/pkg/money"
	moneyv1 "svc.internal/proto/svc/money/v1"
)

func TestRatesSurviveTheWireInEveryUnit(t *testing.T) {
	for _, unit := range []money.Unit{money.Token, money.Image, money.AudioMinute} {
		rates := money.Rates{Unit: unit, Input: 4, Output: 3, PayoutInput: 2, PayoutOutput: 1,
			PayoutCachedInput: 5}
		message := FromRates(rates)
		if message.GetUnit() == moneyv1.Unit_UNIT_UNSPECIFIED {
			t.Errorf("%v in a message: got %v, want any but %v", unit, message.GetUnit(), moneyv1.Unit_UNIT_UNSPECIFIED)
		}
		if got := ToRates(message); got != rates {
			t.Errorf("ToRates(message): got %+v, want %+v", got, rates)
		}
	}
}

func TestAnAbsentUnitIsTheTokenAndAnUnknownOneNothing(t *testing.T) {
	if got := ToRates(&moneyv1.Rates{InputPicoUsdPerToken: 1}); got != (money.Rates{Input: 1}) {
		t.Errorf("without a unit: got %+v, want %+v", got, money.Rates{Input: 1})
	}
	for _, unit := range []moneyv1.Unit{4, -1, math.MaxInt32, math.MinInt32, 257} {
		if rates := ToRates(&moneyv1.Rates{Unit: unit}); rates.Validate() == nil {
			t.Errorf("unit %d came as %+v", unit, rates)
		}
	}
}
