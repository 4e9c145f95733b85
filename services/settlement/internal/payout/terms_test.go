package payout_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
)

func TestAsManyOperatorsAreNeededAsApprove(t *testing.T) {
	t.Parallel()
	machine, ann := payout.Approval{Operator: "operator:job"}, payout.Approval{Operator: "operator:ann@1"}
	for name, tc := range map[string]struct {
		of             payout.Payout
		needed, counts int
	}{
		"small":                     {payout.Payout{State: payout.Requested, Draft: gross(100)}, 0, 0},
		"small, approved by itself": {payout.Payout{State: payout.Confirmed, Draft: gross(100)}, 0, 0},
		"small, on a full day":      {payout.Payout{State: payout.Requested, Draft: gross(100), Waiting: "approval"}, 1, 0},
		"small, approved by a machine": {payout.Payout{State: payout.Approved, Draft: gross(100),
			Consents: []payout.Approval{machine}}, 1, 1},
		"above what goes by itself":                        {payout.Payout{State: payout.Requested, Draft: gross(501)}, 1, 0},
		"approved by itself, before the limit was lowered": {payout.Payout{State: payout.Signing, Draft: gross(501)}, 0, 0},
		"cancelled before anybody approved":                {payout.Payout{State: payout.Cancelled, Draft: gross(501)}, 1, 0},
		"at most for one operator": {payout.Payout{State: payout.Requested, Draft: gross(10_000),
			Consents: []payout.Approval{ann}}, 1, 1},
		"above it, with one of two": {payout.Payout{State: payout.Requested, Draft: gross(10_001),
			Consents: []payout.Approval{machine, ann}}, 2, 1},
	} {
		k := payout.NewKeeper(payout.Config{Alone: 1_000 * money.USD, AloneDaily: 500 * money.USD}, payout.Deps{})
		got := fmt.Sprint(len(tc.of.Approvals()), " of ", k.ApprovalsNeeded(&tc.of))
		if want := fmt.Sprint(tc.counts, " of ", tc.needed); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func gross(usd money.NanoUSD) payout.Draft {
	return payout.Draft{Gross: usd * money.USD, Fee: payout.Fee}
}

// next is a store in which an hour ends.
type next struct {
	payout.Store
	at time.Time
}

func (n next) NextAt(context.Context, ids.ProviderID) (time.Time, error) { return n.at, nil }

func TestTermsAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	k := payout.NewKeeper(payout.Config{Alone: 900 * money.USD, AloneDaily: 5_000 * money.USD,
		Assets: map[chain.ID]chain.Asset{chain.Base: {Symbol: "USDC"}, chain.Ethereum: {Symbol: "USDC"}}},
		payout.Deps{Store: next{at: at}})
	terms, err := k.Terms(t.Context(), ids.ProviderID{1})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(terms.Minimum, terms.Maximum, terms.Chains, terms.Interval, terms.NextAt.Equal(at), terms.Alone,
		terms.One)
	const want = "10.00 1000000.00 [{1 USDC 1.00} {8453 USDC 1.00}] 1h0m0s true 900.00 10000.00"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
