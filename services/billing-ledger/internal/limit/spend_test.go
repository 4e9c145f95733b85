package limit

import (
	"math"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
)

func TestBudgetsAndCapsOutsideOfTheirBoundsAreRefused(t *testing.T) {
	t.Parallel()
	for amount, want := range map[money.NanoUSD]fault.Reason{
		0: "", 1: "", MaxSpend: "", -1: fault.InvalidValue, MaxSpend + 1: fault.InvalidValue,
		math.MaxInt64: fault.InvalidValue, math.MinInt64: fault.InvalidValue,
	} {
		for name, err := range map[string]error{
			"budget": Budget{amount, Week}.Validate(), "day": Caps{Day: &amount}.Validate(),
			"month": Limits{Caps: Caps{Month: &amount}}.Validate(),
		} {
			if want == "" && err != nil {
				t.Errorf("%s of %d: got the error %v, want none", name, amount, err)
			} else if want != "" && !fault.Is(err, want) {
				t.Errorf("%s of %d: got the error %v, want %s", name, amount, err, want)
			}
		}
	}
	for _, p := range []Period{"", "year", "DAY", "minute"} {
		if err := (Budget{1, p}).Validate(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("period %q: got the error %v, want %s", p, err, fault.InvalidValue)
		}
	}
	over := Spending{Budget: Budget{Amount: 5}, Spent: 4, Held: 3}
	if got := over.Left(); got != 0 {
		t.Errorf("left of a budget that was passed: got %s, want 0", got)
	}
}
