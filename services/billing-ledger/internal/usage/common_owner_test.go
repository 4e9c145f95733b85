package usage

import (
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Hostile test 40, the rule alone.
func TestAnOwnersEarningsAreHeldWhenThePlatformBearsAPart(t *testing.T) {
	provider, stranger := ids.ProviderID{7}, ids.ProviderID{8}
	paying := money.Rates{Output: 5000, PayoutOutput: 4000}
	for name, tc := range map[string]struct {
		billing  hold.BillingType
		state    hold.State
		rates    money.Rates
		amount   money.NanoUSD
		provider ids.ProviderID
		unpaid   bool
		want     Rule
	}{
		"a plan":                     {hold.Plan, hold.Open, paying, 0, provider, false, SameUser},
		"a plan, a stranger":         {hold.Plan, hold.Open, paying, 0, stranger, true, ""},
		"paid credit":                {hold.PayAsYouGo, hold.Open, paying, 50, provider, false, ""},
		"unpaid credit":              {hold.PayAsYouGo, hold.Open, paying, 50, provider, true, SameUser},
		"unpaid credit, a stranger":  {hold.PayAsYouGo, hold.Open, paying, 50, stranger, true, ""},
		"paid credit that is short":  {hold.PayAsYouGo, hold.Open, paying, 49, provider, false, SameUser},
		"orphan work, paid credit":   {hold.PayAsYouGo, hold.Expired, paying, 50, provider, false, SameUser},
		"orphan work, a plan":        {hold.Plan, hold.Released, paying, 0, provider, false, SameUser},
		"orphan work, a stranger":    {hold.PayAsYouGo, hold.Expired, paying, 50, stranger, true, ""},
		"a free model":               {hold.Free, hold.Open, money.Rates{}, 0, provider, true, ""},
		"a plan that pays nobody":    {hold.Plan, hold.Open, money.Rates{Output: 5000}, 0, provider, true, ""},
		"a free model, orphan":       {hold.Free, hold.Expired, money.Rates{}, 0, provider, true, ""},
		"orphan that pays nobody":    {hold.PayAsYouGo, hold.Expired, money.Rates{Output: 5000}, 50, provider, true, ""},
		"unpaid that pays nobody":    {hold.PayAsYouGo, hold.Open, money.Rates{Output: 5000}, 50, provider, true, ""},
		"a plan, and unpaid credit":  {hold.Plan, hold.Open, paying, 0, provider, true, SameUser},
		"unpaid credit, and orphan":  {hold.PayAsYouGo, hold.Released, paying, 50, provider, true, SameUser},
		"unpaid credit that is less": {hold.PayAsYouGo, hold.Open, paying, 49, provider, true, SameUser},
	} {
		h := Hold{Account: testAccount, Key: testKey, Model: "m", Billing: tc.billing, Amount: tc.amount, MaxCompletion: 10,
			Rates: tc.rates, State: tc.state}
		b := snapshot(h, Wallet{Posted: tc.amount, Held: tc.amount})
		b.Related = map[Pair]Rule{{testAccount, provider}: SameUser}
		b.GrantedCredit = map[ids.AccountID]bool{testAccount: tc.unpaid}
		fx := Decide(b, []Event{{Request: testRequest, Model: "m", Rates: tc.rates, Provider: tc.provider,
			Billable: money.Tokens{Completion: 10}}})
		if len(fx.Lines) != 1 {
			t.Errorf("%s: len(fx.Lines): got %d, want 1, with %q", name, len(fx.Lines), tc.want)
		} else if fx.Lines[0].Held != tc.want {
			t.Errorf("%s: fx.Lines[0].Held: got %q, want %q", name, fx.Lines[0].Held, tc.want)
		}
	}
}

func TestEarningsByPlansAreOfTheMonthOfTheirRequest(t *testing.T) {
	line := Line{Event: Event{Request: testRequest}, Source: Plan}
	if got, want := line.PlanMonth(), testRequest.Day().Format("2006-01"); got != want {
		t.Errorf("got the month %q, want %q", got, want)
	}
	if line.Source = Orphan; line.PlanMonth() != "" {
		t.Errorf(`orphan work is in the month: got %q, want ""`, line.PlanMonth())
	}
}

func TestOfTwoRulesTheSurerOneCounts(t *testing.T) {
	rules := Rules()
	for i, surer := range rules {
		if got := Surest("", surer); got != surer {
			t.Errorf("%s alone: got %q, want %q", surer, got, surer)
		}
		for _, other := range rules[i:] {
			if got := Surest(surer, other); got != surer {
				t.Errorf("%s before %s: got %q, want %q", surer, other, got, surer)
			}
			if got := Surest(other, surer); got != surer {
				t.Errorf("%s after %s: got %q, want %q", surer, other, got, surer)
			}
		}
	}
}
