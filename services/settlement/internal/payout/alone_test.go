package payout_test

import (
	"context"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
)

// one is a store with one payout, which is reserved and waits to be approved.
type one struct {
	payout.Store
	p     payout.Payout
	steps []payout.Step
}

func (s *one) Get(context.Context, payout.ID) (payout.Payout, error) { return s.p, nil }

func (s *one) Change(
	_ context.Context, _ payout.ID, apply func(*payout.Payout) (payout.Step, error),
) (payout.Payout, error) {
	next := s.p
	step, err := apply(&next)
	if err != nil || step.Cause == "" {
		return s.p, err
	}
	s.p, s.steps = next, append(s.steps, step)
	return next, nil
}

func (s *one) Note(_ context.Context, _ payout.ID, waiting, _ string) error {
	s.p.Waiting = waiting
	return nil
}

// clean screens nobody out.
type clean struct{}

func (clean) Screen(context.Context, chain.Address) (bool, string, error) { return false, "v1", nil }

// balances are books that differ from every payout, so that nothing is sent.
type balances struct{ payout.Ledger }

func (balances) Balances(context.Context, ids.ProviderID) (payable, inFlight money.NanoUSD, err error) {
	return 0, 1, nil
}

func approvedAlone(t *testing.T, gross, alone, daily money.NanoUSD) *one {
	t.Helper()
	s := &one{p: payout.Payout{Draft: payout.Draft{Gross: gross, Fee: payout.Fee}, State: payout.Requested, Revision: 2,
		Reserved: ids.EntryID{1}}}
	k := payout.NewKeeper(payout.Config{Alone: alone, AloneDaily: daily},
		payout.Deps{Store: s, Screener: clean{}, Ledger: balances{}})
	if _, err := k.Advance(t.Context(), s.p.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithoutADailySumNothingIsApprovedWithoutAnOperator(t *testing.T) {
	t.Parallel()
	s := approvedAlone(t, 10*money.USD, payout.Alone, 0)
	if s.p.State != payout.Requested {
		t.Errorf("alone_daily_usd is 0: the payout is %s, want %s", s.p.State, payout.Requested)
	}
	if s.p.Waiting != payout.WaitsForApproval {
		t.Errorf("alone_daily_usd is 0: the payout waits for %q, want %q", s.p.Waiting, payout.WaitsForApproval)
	}
}

func TestWhatIsApprovedWithoutAnOperatorIsCountedInItsDay(t *testing.T) {
	t.Parallel()
	s := approvedAlone(t, 10*money.USD, payout.Alone, 5_000*money.USD)
	if s.p.State != payout.Approved {
		t.Fatalf("the payout is %s, want %s", s.p.State, payout.Approved)
	}
	if got, want := s.steps[0].DayCap, money.NanoUSD(5_000*money.USD); got != want {
		t.Errorf("the day's bound is %d, want %d", got, want)
	}
}

func TestASettingRaisesNoBoundOfTheRules(t *testing.T) {
	t.Parallel()
	s := approvedAlone(t, payout.Alone+money.USD, 10*payout.Alone, 100_000*money.USD)
	if s.p.State != payout.Requested {
		t.Errorf("a payout above $1,000 is %s without an operator, want %s", s.p.State, payout.Requested)
	}
}
