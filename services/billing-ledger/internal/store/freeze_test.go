package store_test

import (
	"testing"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
)

func TestAnOperatorFreezesAndLiftsByCause(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	freezes := &account.Freezes{Store: b.store}
	ctx := actor.WithOperator(t.Context(), "ann")
	c := b.buy(t)
	for _, ref := range []string{"ticket 1", "ticket 1", "ticket 2"} {
		if _, err := freezes.Freeze(ctx, b.account, ref, "looks like fraud"); err != nil {
			t.Fatal(err)
		}
	}
	b.look(t, b.processor.dispute(c.SessionID, c.Total()))
	b.wantStanding(t, 91*cent, "operator", "operator", "debt", "dispute")
	for _, ref := range []string{"ticket 1", "ticket 1", "no ticket", "ticket 2"} {
		if _, err := freezes.Lift(ctx, b.account, account.ByOperator, ref, "it was none"); err != nil {
			t.Fatal(err)
		}
	}
	b.wantStanding(t, 91*cent, "debt", "dispute")
	st, err := b.store.Standing(t.Context(), b.account)
	if err != nil {
		t.Fatal(err)
	}
	debt, dispute := st.Debts[0], st.Freezes[1]
	if debt.State() != account.DebtOpen || debt.Left() != 91*cent || debt.Ref != dispute.Ref {
		t.Errorf("the debt: got %+v, want 91 cents open of %s", debt, dispute.Ref)
	}
	if _, err := freezes.Lift(ctx, b.account, account.ByDebt, debt.Ref, "be kind"); !fault.Is(err,
		fault.TransitionNotAllowed) {
		t.Errorf("a debt: got the error %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	if _, err := freezes.Lift(ctx, b.account, account.ByDispute, dispute.Ref, "settled by letter"); err != nil {
		t.Fatal(err)
	}
	b.buy(t)
	b.repay(t)
	b.wantStanding(t, 0)
	list, err := freezes.List(ctx, b.account)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 4 || list[0].Lifted.IsZero() {
		t.Errorf("the causes: got %+v, want four that are lifted", list)
	}
	if n := scan[int](t, b.env, `SELECT count(*) FROM operator_action WHERE actor = 'operator:ann'
		AND action IN ('freeze', 'lift_freeze') AND detail ->> 'note' <> ''`); n != 5 {
		t.Errorf("actions: got %d, want 5", n)
	}
	b.sound(t)
}

func TestACauseNeedsANoteAndAnAccount(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	freezes := &account.Freezes{Store: e.store}
	c := e.consumer(t, 0)
	nobody := ids.AccountID{1}
	for name, tc := range map[string]struct {
		do   func() ([]account.Freeze, error)
		want fault.Reason
	}{
		"no note": {func() ([]account.Freeze, error) { return freezes.Freeze(t.Context(), c.account, "x", "") },
			fault.InvalidValue},
		"a long reference": {func() ([]account.Freeze, error) {
			return freezes.Freeze(t.Context(), c.account, string(make([]byte, 81)), "n")
		}, fault.InvalidValue},
		"no account": {func() ([]account.Freeze, error) { return freezes.Freeze(t.Context(), nobody, "x", "n") },
			fault.AccountNotFound},
		"nobody's causes": {func() ([]account.Freeze, error) { return freezes.List(t.Context(), nobody) },
			fault.AccountNotFound},
		"an odd cause": {func() ([]account.Freeze, error) { return freezes.Lift(t.Context(), c.account, "odd", "x", "n") },
			fault.InvalidValue},
		"lift without a note": {func() ([]account.Freeze, error) {
			return freezes.Lift(t.Context(), c.account, account.ByLoss, "x", "")
		}, fault.InvalidValue},
	} {
		if _, err := tc.do(); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %s", name, err, tc.want)
		}
	}
}
