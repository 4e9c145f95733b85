package money_test

import (
	"math"
	"math/big"
	"testing"

	"svc.internal/pkg/money"
)

func TestADiscountIsRoundedDownAndLeavesAPrice(t *testing.T) {
	t.Parallel()
	for _, list := range []money.NanoUSD{1, 2, 3, 9999, 10_000, 10_001, 1_234_567_891, math.MaxInt64} {
		for _, d := range []money.Discount{1, 1500, 3333, 8999, 9000} {
			want := new(big.Int).Mul(big.NewInt(int64(list)), big.NewInt(int64(d)))
			want.Quo(want, big.NewInt(10_000))
			got := d.Of(list)
			if int64(got) != want.Int64() {
				t.Errorf("%d of %d: got %d, want %s", d, list, got, want)
			}
			if got < 0 || got >= list {
				t.Errorf("%d of %d: got %d, want from 0 to less than the price", d, list, got)
			}
		}
	}
	for _, d := range []money.Discount{0, -1} {
		if got := d.Of(money.USD); got != 0 {
			t.Errorf("a discount of %d: got %d, want 0", d, got)
		}
	}
	if got := money.Discount(9000).Of(-money.USD); got != 0 {
		t.Errorf("a discount of a price below zero: got %d, want 0", got)
	}
}
