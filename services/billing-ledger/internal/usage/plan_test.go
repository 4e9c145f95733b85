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
		switch {
		case fx.Results[0] != Settled:
			t.Fatalf("fx.Results[0]: got %q, want %q", fx.Results[0], Settled)
		case fx.Results[1] != Duplicate:
			t.Fatalf("fx.Results[1]: got %q, want %q", fx.Results[1], Duplicate)
		case fx.NeedsWallets:
			t.Fatal("fx.NeedsWallets: got true, want false")
		}
		l := fx.Lines[0]
		payout, _ := h.Rates.Payout(e.Billable)
		switch {
		case l.Source != Plan:
			t.Fatalf("l.Source: got %q, want %q", l.Source, Plan)
		case l.Charged != 0:
			t.Fatalf("l.Charged: got %v, want 0", l.Charged)
		case l.Shortfall != 0:
			t.Fatalf("l.Shortfall: got %v, want 0", l.Shortfall)
		case l.Payout != payout:
			t.Fatalf("l.Payout: got %v, want %v", l.Payout, payout)
		case fx.Wallets[testAccount] != (Change{}):
			t.Fatalf("fx.Wallets[testAccount]: got %+v, want %+v", fx.Wallets[testAccount], Change{})
		}
		used := fx.Plans[plan.Key{Account: testAccount, Pin: h.Cover.Pin}].Plus(estimate)
		want := plan.Units{Requests: 1, Images: estimate.Images, Tokens: e.Billable.Prompt + e.Billable.Completion,
			ListPrice: l.ListPrice}
		refunded := want.Tokens == 0 && (ending == "provider_lost" || ending == "engine_error")
		if refunded {
			want.Requests, want.Images = 0, 0
		}
		if used != want {
			t.Fatalf("%s: used: got %+v, want %+v", ending, used, want)
		}
		if (len(fx.Refunded) == 1) != refunded {
			t.Fatalf("%s: len(fx.Refunded) == 1: got %t, want %t", ending, len(fx.Refunded) == 1, refunded)
		}
	}
}

func TestAPlaceIsFreedOnce(t *testing.T) {
	h := coveredHold(plan.Units{Requests: 1})
	e := Event{Request: testRequest, Model: "m", Rates: h.Rates, Ending: "completed"}
	b := Snapshot{Holds: map[ids.RequestID]Hold{testRequest: h}}
	if fx := Decide(b, []Event{e}); fx.Ended[testKey] != 1 {
		t.Errorf("settled before the gateway told: fx.Ended[testKey]: got %d, want 1", fx.Ended[testKey])
	} else if fx.Left[testAccount] != 1 {
		t.Errorf("settled before the gateway told: fx.Left[testAccount]: got %d, want 1", fx.Left[testAccount])
	}
	b.Reported = map[ids.RequestID]bool{testRequest: true}
	switch fx := Decide(b, []Event{e}); {
	case len(fx.Ended) != 0:
		t.Errorf("settled after the gateway told: len(fx.Ended): got %d, want 0", len(fx.Ended))
	case len(fx.Left) != 0:
		t.Errorf("settled after the gateway told: len(fx.Left): got %d, want 0", len(fx.Left))
	case len(fx.Wallets) != 1:
		t.Errorf("settled after the gateway told: len(fx.Wallets): got %d, want 1", len(fx.Wallets))
	}
}
