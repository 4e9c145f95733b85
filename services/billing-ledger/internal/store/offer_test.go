package store_test

import (
	"reflect"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/plan"
)

func TestOffersAreThePlansThatAreSoldWithTheLimitsThatAreOn(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	e.exec(t, `INSERT INTO plan (id) VALUES ('bare'), ('given')`)
	e.exec(t, `INSERT INTO plan_price VALUES ('bare', 900)`)
	got, err := e.store.Offers(t.Context(), plan.MaxOffers)
	if err != nil {
		t.Fatal(err)
	}
	all, both := []plan.Tier{plan.Free, plan.Standard, plan.Premium}, []plan.Tier{plan.Free, plan.Standard}
	want := []plan.Offer{
		{Plan: "pro", Price: 6 * money.USD, Limits: []plan.Limit{
			{Kind: plan.Concurrent, Period: "none", Cap: 8, Tiers: all, Draws: all},
			{Kind: plan.Images, Period: "day", Cap: 75, Tiers: all, Draws: all},
			{Kind: plan.Requests, Period: "day", Cap: 1500, Tiers: all, Draws: all},
			{Kind: plan.Requests, Period: "minute", Cap: 50, Tiers: all, Draws: all},
			{Kind: plan.Tokens, Period: "week", Cap: 40_000_000, Tiers: both, Draws: []plan.Tier{plan.Standard}},
		}},
		{Plan: "bare", Price: 9 * money.USD},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	few, err := e.store.Offers(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(few) != 1 {
		t.Errorf("one of two: got %d plans, want 1", len(few))
	}
}
