package card

import (
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func TestWhatIsChargedSpendsTheNewestPaymentFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		charged money.NanoUSD
		list    []Bought
		want    money.NanoUSD
	}{
		"nothing charged":              {0, []Bought{{0, 1000}}, 10 * money.USD},
		"charged before":               {7 * money.USD, []Bought{{7 * money.USD, 1000}}, 10 * money.USD},
		"charged since":                {7 * money.USD, []Bought{{0, 1000}}, 3 * money.USD},
		"all is spent":                 {70 * money.USD, []Bought{{0, 1000}}, 0},
		"given back since":             {5 * money.USD, []Bought{{7 * money.USD, 1000}}, 10 * money.USD},
		"a later payment is spent":     {8 * money.USD, []Bought{{0, 1000}, {0, 1000}}, 10 * money.USD},
		"more than a later payment":    {13 * money.USD, []Bought{{0, 1000}, {0, 1000}}, 7 * money.USD},
		"spent before a later payment": {5 * money.USD, []Bought{{5 * money.USD, 1000}, {0, 1000}}, 5 * money.USD},
		"a later one was refunded":     {5 * money.USD, []Bought{{0, 0}, {0, 1000}}, 5 * money.USD},
		"no payment":                   {5 * money.USD, nil, 0},
	} {
		if got := Unspent(tc.charged, tc.list); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestARefundIsNamedByItsAccountWhoAsksAndItsKey(t *testing.T) {
	a, b := ids.AccountID{1}, ids.AccountID{2}
	first := RefundOf(a, true, "k")
	if again := RefundOf(a, true, "k"); again != first {
		t.Errorf("a repeat: got %s, want %s", again, first)
	}
	for what, other := range map[string]RefundID{"another account": RefundOf(b, true, "k"),
		"an operator": RefundOf(a, false, "k"), "another key": RefundOf(a, true, "l")} {
		if other == first {
			t.Errorf("%s: got the same refund, want another", what)
		}
	}
}
