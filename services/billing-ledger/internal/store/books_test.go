package store_test

import (
	"maps"
	"reflect"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// The history has a dollar of goodwill, four cents charged, and 4.9 cents earned, some of it as orphan work.
func TestTheBooksAreTheSumsOfAllAccountsBeforeAndAfterASeal(t *testing.T) {
	e, c, _ := history(t)
	bought := must(t)(ledger.CardTopUp(newFact(t), c.account, 20*money.USD, money.USD))
	e.charge(t, bought)
	post(t, e,
		must(t)(ledger.Deposit(newFact(t), c.account, ledger.Sum{Token: ledger.USDCBase, Units: 10_000_000})),
		must(t)(ledger.StrayDeposit(newFact(t), ledger.Sum{Token: ledger.USDCBase, Units: 2_000_000})),
		must(t)(ledger.PlanSale(newFact(t), "2026-03", 6*money.USD)),
		bought)
	check := func(when string) {
		t.Helper()
		got, err := e.store.Books(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]int64{"8453:usdc": 12_000_000}; !maps.Equal(got.Tokens, want) {
			t.Errorf("%s: tokens: got %v, want %v", when, got.Tokens, want)
		}
		if got.At.IsZero() {
			t.Errorf("%s: the time: got none, want one", when)
		}
		got.Tokens, got.At = nil, earning.Books{}.At
		want := earning.Books{Crypto: 12 * money.USD, Card: 27 * money.USD, Consumers: 30*money.USD + 960_000_000,
			Providers: 49_000_000, Others: 8 * money.USD}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", when, got, want)
		}
	}
	check("open")
	// As if a day had passed. Seals carry their dates, so they are made anew.
	e.exec(t, `DELETE FROM balance_snapshot`)
	e.exec(t, `DELETE FROM seal`)
	e.exec(t, `DELETE FROM closed_day`)
	e.pushBack(t, 1)
	e.sealDue(t)
	check("sealed")
}

// What a plan of an open month owes providers is bounded by the pool, so it is not claimed twice.
func TestWhatPlansOweProvidersIsClaimedOfTheirPoolAlone(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, roomy)
	request := e.standard(t, c, 3)
	e.admitOne(t, request, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, request, 3))
	earned := scan[int64](t, e, `SELECT count(*) FROM usage_leg WHERE account_kind = 'l:provider:plan_held'`)
	if earned != 1 {
		t.Fatalf("earned by a plan: got %d lines, want 1", earned)
	}
	got, err := e.store.Books(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Providers != 0 {
		t.Errorf("providers: got %s, want 0", got.Providers)
	}
}
