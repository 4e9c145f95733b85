package auditor

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestAPriceIsRoundedOnce(t *testing.T) {
	for pico, want := range map[int64]struct{ list, payout int64 }{
		0: {0, 0}, 1: {0, 0}, 499: {0, 0}, 500: {0, 0}, 501: {1, 0}, 999: {1, 0}, 1000: {1, 1},
		1499: {1, 1}, 1500: {2, 1}, 1501: {2, 1}, 2500: {2, 2}, 2501: {3, 2}, 3500: {4, 3},
	} {
		r := rates{input: pico, payoutInput: pico}
		list, listOK := r.listPrice(tokens{prompt: 1})
		payout, payoutOK := r.payout(tokens{prompt: 1})
		switch {
		case list != want.list:
			t.Errorf("%d pico-USD: list price: got %d, want %d", pico, list, want.list)
		case payout != want.payout:
			t.Errorf("%d pico-USD: payout: got %d, want %d", pico, payout, want.payout)
		case !listOK:
			t.Errorf("%d pico-USD: list price: listOK of r.listPrice(tokens{prompt: 1}): got false, want true", pico)
		case !payoutOK:
			t.Errorf("%d pico-USD: payoutOK of r.payout(tokens{prompt: 1}): got false, want true", pico)
		}
	}
}

func TestAMinuteIsPaidByTheMillisecondAndAnImageAsAWhole(t *testing.T) {
	audio := rates{unit: unitMinute, input: 6_000_000_000, payoutInput: 5_399_999_999}
	image := rates{unit: unitImage, output: 40_000_000_000, payoutOutput: 36_000_000_000}
	half := rates{unit: unitMinute, input: 30_000_000, payoutInput: 30_000_000}
	for _, c := range []struct {
		r            rates
		counts       tokens
		list, payout int64
	}{
		{audio, tokens{prompt: 60_000}, 6_000_000, 5_399_999}, {audio, tokens{prompt: 1}, 100, 89},
		{image, tokens{completion: 2}, 80_000_000, 72_000_000},
		{half, tokens{prompt: 1}, 0, 0}, {half, tokens{prompt: 2}, 1, 1}, {half, tokens{prompt: 3}, 2, 1},
	} {
		list, listOK := c.r.listPrice(c.counts)
		payout, payoutOK := c.r.payout(c.counts)
		switch {
		case list != c.list:
			t.Errorf("%+v at %+v: list: got %d, want %d", c.counts, c.r, list, c.list)
		case payout != c.payout:
			t.Errorf("%+v at %+v: payout: got %d, want %d", c.counts, c.r, payout, c.payout)
		case !listOK:
			t.Errorf("%+v at %+v: listOK of c.r.listPrice(c.counts): got false, want true", c.counts, c.r)
		case !payoutOK:
			t.Errorf("%+v at %+v: payoutOK of c.r.payout(c.counts): got false, want true", c.counts, c.r)
		}
	}
}

func TestAPriceThatNoAmountHoldsIsRefused(t *testing.T) {
	r := rates{input: math.MaxInt64, output: math.MaxInt64, payoutInput: math.MaxInt64, payoutOutput: math.MaxInt64}
	ceiling := tokens{math.MaxInt64, math.MaxInt64}
	if _, ok := r.listPrice(ceiling); ok {
		t.Error("the list price fits")
	}
	if _, ok := r.payout(ceiling); ok {
		t.Error("the payout fits")
	}
}

func TestASumNeverWraps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64}
	for range 2000 {
		var sum wide
		want := new(big.Int)
		for range 50 {
			n := int64(r.Uint64())
			if r.IntN(2) == 0 {
				n = edges[r.IntN(len(edges))]
			}
			if r.IntN(2) == 0 {
				sum = sum.plus(n)
				want.Add(want, big.NewInt(n))
			} else {
				sum = sum.minus(n)
				want.Sub(want, big.NewInt(n))
			}
			if sum.String() != want.String() {
				t.Fatalf("sum: got %q, want %q", sum.String(), want.String())
			} else if found, wanted := sum.negative(), want.Sign() < 0; found != wanted {
				t.Fatalf("sum.negative(): got %t, want %t", found, wanted)
			} else if found, wanted := sum.zero(), want.Sign() == 0; found != wanted {
				t.Fatalf("sum.zero(): got %t, want %t", found, wanted)
			}
			if sum.negated().String() != new(big.Int).Neg(want).String() {
				t.Fatalf("the opposite of %v is %v", sum, sum.negated())
			}
		}
	}
}
