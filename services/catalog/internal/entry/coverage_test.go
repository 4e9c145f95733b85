package entry

import (
	"testing"

	"svc.internal/pkg/money"
)

func TestTheTierAndTheUnitSayHowThePlanPays(t *testing.T) {
	t.Parallel()
	priced := func(unit money.Unit) money.Rates { return money.Rates{Unit: unit, Input: 1, Output: 1} }
	for _, tc := range []struct {
		tier  Tier
		rates money.Rates
		want  Coverage
	}{
		{Standard, priced(money.Token), ByTokens},
		{Standard, priced(money.Image), ByImages},
		{Standard, priced(money.AudioMinute), ByMoney},
		{Standard, money.Rates{}, Unneeded},
		{Free, priced(money.Token), Undrawn},
		{Free, priced(money.Image), ByImages},
		{Free, priced(money.AudioMinute), ByMoney},
		{Premium, priced(money.Token), NotCovered},
		{Premium, priced(money.Image), NotCovered},
		{Premium, priced(money.AudioMinute), NotCovered},
		{Premium, money.Rates{}, Unneeded},
	} {
		if got := CoverageOf(tc.tier, tc.rates); got != tc.want {
			t.Errorf("%s at %+v: got %q, want %q", tc.tier, tc.rates, got, tc.want)
		}
	}
}
