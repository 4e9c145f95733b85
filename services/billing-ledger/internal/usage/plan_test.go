package usage

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
)

func coveredHold(estimate plan.Units) Hold {
	return Hold{
		Account: testAccount, Key: testKey, Model: "m", Billing: hold.Plan, Prompt: 100, MaxCompletion: 100, State: hold.Open,
		Rates: money.Rates{Input: 3000, PayoutInput: 2000, Output: 5000, PayoutOutput: 4000},
		Cover: plan.Cover{Pin: plan.Pin{Plan: "pro", Tier: plan.Standard, Day: 20_000}, Estimate: estimate},
	}
}

// What a plan covers costs its consumer nothing and pays its provider all,
// and what was counted at admission is what it came to after.
func TestWhatAPlanCoversIsPaidAndNeverCharged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		estimate := plan.Units{Requests: 1, Images: r.Int64N(4), Tokens: 200, ListPrice: money.NanoUSD(r.Int64N(1000))}
		h := coveredHold(estimate)
		ending := []string{"completed", "client_gone", "provider_lost", "engine_error"}[r.IntN(4)]
		e := Event{Request: testRequest, Model: "m", Rates: h.Rates, Ending: ending,
			Billable: money.Tokens{Prompt: r.Int64N(3), Completion: r.Int64N(3)}}
		fx := Decide(Snapshot{Holds: map[ids.RequestID]Hold{testRequest: h}}, []Event{e, e})
		if fx.Results[0] != Settled || fx.Results[1] != Duplicate || fx.NeedsWallets {
			t.Fatalf("%+v", fx)
		}
		l := fx.Lines[0]
		payout, _ := h.Rates.Payout(e.Billable)
		if l.Source != Plan || l.Charged != 0 || l.Shortfall != 0 || l.Payout != payout ||
			fx.Wallets[testAccount] != (Change{}) {
			t.Fatalf("%+v", l)
		}
		used := fx.Plans[plan.Key{Account: testAccount, Pin: h.Cover.Pin}].Plus(estimate)
		want := plan.Units{Requests: 1, Images: estimate.Images, Tokens: e.Billable.Prompt + e.Billable.Completion,
			ListPrice: l.ListPrice}
		refunded := want.Tokens == 0 && (ending == "provider_lost" || ending == "engine_error")
		if refunded {
			want.Requests, want.Images = 0, 0
		}
		if used != want || (len(fx.Refunded) == 1) != refunded {
			t.Fatalf("%s with %+v: counted %+v, want %+v", ending, e.Billable, used, want)
		}
	}
}

func TestAPlaceIsFreedOnce(t *testing.T) {
	h := coveredHold(plan.Units{Requests: 1})
	e := Event{Request: testRequest, Model: "m", Rates: h.Rates, Ending: "completed"}
	b := Snapshot{Holds: map[ids.RequestID]Hold{testRequest: h}}
	if fx := Decide(b, []Event{e}); fx.Ended[testKey] != 1 || fx.Left[testAccount] != 1 {
		t.Errorf("settled before the gateway told: %+v", fx.Moves)
	}
	b.Reported = map[ids.RequestID]bool{testRequest: true}
	if fx := Decide(b, []Event{e}); len(fx.Ended) != 0 || len(fx.Left) != 0 || len(fx.Wallets) != 1 {
		t.Errorf("settled after the gateway told: %+v", fx.Moves)
	}
}
