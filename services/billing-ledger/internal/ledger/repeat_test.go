package ledger

import (
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func TestTokensAreTheSameFactAtAnotherPriceAndNotInAnotherNumber(t *testing.T) {
	t.Parallel()
	f := Fact{ID: ids.EntryID{1}, BusinessID: "once"}
	sum := func(units Units, rate money.NanoUSD) Sum {
		quote := &Quote{Token: ETHBase, Rate: rate, Source: "test", At: time.Unix(1, 0)}
		return Sum{Token: ETHBase, Units: units, Quote: quote}
	}
	gas := func(units Units, rate money.NanoUSD) (Entry, error) { return GasSpent(f, sum(units, rate)) }
	slash := func(units Units, rate money.NanoUSD) (Entry, error) { return ChainSlash(f, sum(units, rate), nil) }
	shared := func(amount money.NanoUSD) func(Units, money.NanoUSD) (Entry, error) {
		return func(units Units, rate money.NanoUSD) (Entry, error) {
			return ChainSlash(f, sum(units, rate), []Compensation{{consumer, amount}})
		}
	}
	for name, c := range map[string]struct {
		first, again func(Units, money.NanoUSD) (Entry, error)
		units        Units
		want         bool
	}{
		"gas at another price":                 {gas, gas, 5_000_000, true},
		"other gas":                            {gas, gas, 5_000_001, false},
		"a slash at another price":             {slash, slash, 5_000_000, true},
		"another slash":                        {slash, slash, 5_000_001, false},
		"a shared slash at another price":      {shared(1_000), shared(1_000), 5_000_000, true},
		"a slash of which a consumer has more": {shared(1_000), shared(1_001), 5_000_000, false},
		"a slash of which a consumer has some": {slash, shared(1_000), 5_000_000, false},
		"a slash that was gas":                 {gas, slash, 5_000_000, false},
	} {
		first, err := c.first(5_000_000, 2_000*money.USD)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.again(c.units, 2_100*money.USD)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Repeats(first); got != c.want {
			t.Errorf("%s: got that it repeats %t, want %t", name, got, c.want)
		}
	}
}
