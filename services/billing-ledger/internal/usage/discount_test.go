package usage

import (
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// A discount lowers the charge, and neither the list price nor what the provider earns.
func TestADiscountIsOfTheChargeAlone(t *testing.T) {
	t.Parallel()
	provider := ids.ProviderID{7}
	rates := money.Rates{Output: 101_000, PayoutOutput: 90_000}
	for name, tc := range map[string]struct {
		billing         hold.BillingType
		state           hold.State
		amount, credit  money.NanoUSD
		charged, short  money.NanoUSD
		discount        money.NanoUSD
		heldOfOneself   Rule
		discountPercent money.Discount
	}{
		"of credit":          {hold.PayAsYouGo, hold.Open, 674, 674, 674, 0, 336, SameUser, 3333},
		"and credit short":   {hold.PayAsYouGo, hold.Open, 600, 650, 650, 24, 336, SameUser, 3333},
		"without a discount": {hold.PayAsYouGo, hold.Open, 1010, 1010, 1010, 0, 0, "", 0},
		"of a plan":          {hold.Plan, hold.Open, 0, 0, 0, 0, 0, SameUser, 3333},
		"of orphan work":     {hold.PayAsYouGo, hold.Expired, 674, 674, 0, 0, 0, SameUser, 3333},
	} {
		h := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: tc.billing, Amount: tc.amount, MaxCompletion: 10,
			Rates: rates, State: tc.state, Discount: tc.discountPercent}
		b := snapshot(h, Wallet{Posted: tc.credit, Held: tc.amount})
		b.Related = map[Pair]Rule{{testAccount, provider}: SameUser}
		fx := Decide(b, []Event{{Request: testRequest, Model: "m", Rates: rates, Provider: provider,
			Billable: money.Tokens{Completion: 10}}})
		if len(fx.Lines) != 1 {
			t.Fatalf("%s: len(fx.Lines): got %d, want 1", name, len(fx.Lines))
		}
		l := fx.Lines[0]
		got := [...]money.NanoUSD{l.ListPrice, l.Payout, l.Charged, l.Shortfall, l.Discount}
		if want := [...]money.NanoUSD{1010, 900, tc.charged, tc.short, tc.discount}; got != want {
			t.Errorf("%s: list price, payout, charge, shortfall and discount: got %d, want %d", name, got, want)
		}
		if l.Held != tc.heldOfOneself {
			t.Errorf("%s: held: got %q, want %q", name, l.Held, tc.heldOfOneself)
		}
	}
}

// What arrived of a broken answer has the discount, too.
func TestALateReportKeepsTheDiscount(t *testing.T) {
	t.Parallel()
	l := LateReport{Request: testRequest, Account: testAccount, Rates: money.Rates{Output: 101_000}, Charged: 674,
		Discount: 3333, Completion: 10, Relayed: Relayed{Tokens: 5, Bytes: 500}}
	entry, err := l.Entry()
	if err != nil {
		t.Fatal(err)
	}
	// 505 less 168 is due.
	for _, p := range entry.Postings {
		if got := max(p.Amount, -p.Amount); got != 674-337 {
			t.Errorf("given back: got %d, want %d", got, 674-337)
		}
	}
}
