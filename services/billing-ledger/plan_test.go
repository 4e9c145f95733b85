package billingledger_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// counters are the counters of an account's plan, by kind and period.
func counters(a *billingv1.Account) map[string]float64 {
	used := map[string]float64{}
	for _, c := range a.GetPlan().GetCounters() {
		used[c.GetKind()+" "+c.GetPeriod()] = c.GetUsed()
	}
	return used
}

func TestAPlanIsSetShownAndPaysForWhatItCovers(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "")
	if _, err := f.admission.Admit(t.Context(), order(t, c)); !fault.Is(err, fault.InsufficientCredits) {
		t.Fatalf("without credit and plan: got the error %v, want the reason %v", err, fault.InsufficientCredits)
	}
	until := timestamppb.New(time.Now().Add(24 * time.Hour).Truncate(time.Microsecond))
	for range 2 {
		set, err := f.accounts.SetAccountPlan(t.Context(), &billingv1.SetAccountPlanRequest{AccountId: c.account, Plan: "pro",
			Until: until})
		p := set.GetAccount().GetPlan()
		if err != nil || p.GetPlan() != "pro" || !p.GetUntil().AsTime().Equal(until.AsTime()) || len(p.GetCounters()) != 6 {
			t.Fatalf("set %v: %v", set, err)
		}
	}
	notices := f.notices(t)
	req := order(t, c)
	if a := f.admit(t, req); a.GetBillingType() != billingv1.BillingType_BILLING_TYPE_PLAN || a.GetHeldNanoUsd() != 0 ||
		a.GetLeaseMs() != 60_000 ||
		a.GetRequests().GetLimit() != 50 || a.GetRequests().GetRemaining() != 49 {
		t.Errorf("admitted as %v", a)
	}
	f.publish(t, served(req.GetRequestId()))
	wait(t, notices)
	if got := f.balance(t, c); got != "0.00 held 0.00" {
		t.Errorf(`balance: got %q, want "0.00 held 0.00"`, got)
	}
	shown, err := f.accounts.GetAccount(t.Context(), &billingv1.GetAccountRequest{AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	used := counters(shown.GetAccount())
	for name, want := range map[string]float64{"requests day": 1, "tokens week": 1100, "list_price month": 0.0014,
		"images day": 0, "concurrent none": 0} {
		if used[name] != want {
			t.Errorf("got %v of %s used, want %v", used[name], name, want)
		}
	}
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: req.GetRequestId(),
		AccountId: c.account})
	switch r := got.GetReceipt(); {
	case err != nil:
		t.Errorf("receipt: got the error %v, want none", err)
	case r.GetBillingType() != "plan":
		t.Errorf(`receipt: r.GetBillingType(): got %q, want "plan"`, r.GetBillingType())
	case r.GetCostUsdStr() != "0.00":
		t.Errorf(`receipt: r.GetCostUsdStr(): got %q, want "0.00"`, r.GetCostUsdStr())
	case r.GetCompletionTokens() != 300:
		t.Errorf("receipt: r.GetCompletionTokens(): got %d, want 300", r.GetCompletionTokens())
	}
	off, err := f.accounts.SetAccountPlan(t.Context(), &billingv1.SetAccountPlanRequest{AccountId: c.account})
	if err != nil {
		t.Errorf("taken off: got the error %v, want none", err)
	} else if off.GetAccount().GetPlan() != nil {
		t.Errorf("taken off: off.GetAccount().GetPlan(): got %v, want nil", off.GetAccount().GetPlan())
	}
	for field, req := range map[string]*billingv1.SetAccountPlanRequest{
		"plan": {AccountId: c.account, Plan: "none"}, "until": {AccountId: c.account, Plan: "pro",
			Until: timestamppb.New(time.Unix(1, 0))},
		"account_id": {AccountId: newRequest(t), Plan: "pro"},
	} {
		_, err := f.accounts.SetAccountPlan(t.Context(), req)
		if got, ok := fault.As(err); !ok {
			t.Errorf("%s: got the error %v, want a fault", field, err)
		} else if got.Param != field {
			t.Errorf("%s: Param: got %q, want %q", field, got.Param, field)
		}
	}
	f.sound(t)
}

func TestAFrozenAccountIsRefusedUntilItIsOpened(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	running := order(t, c)
	f.admit(t, running)
	for _, state := range []string{"frozen", "frozen", "open", "frozen"} {
		set, err := f.accounts.SetAccountState(t.Context(), &billingv1.SetAccountStateRequest{AccountId: c.account,
			State: state, Memo: "test"})
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if set.GetAccount().GetState() != state {
			t.Fatalf("set.GetAccount().GetState(): got %q, want %q", set.GetAccount().GetState(), state)
		}
	}
	if _, err := f.admission.Admit(t.Context(), order(t, c)); !fault.Is(err, fault.AccountFrozen) {
		t.Errorf("a frozen account: got the error %v, want the reason %v", err, fault.AccountFrozen)
	}
	notices := f.notices(t)
	f.publish(t, served(running.GetRequestId()))
	wait(t, notices)
	if _, err := f.accounts.SetAccountState(t.Context(), &billingv1.SetAccountStateRequest{AccountId: c.account,
		State: "open", Memo: "test"}); err != nil {
		t.Fatal(err)
	}
	f.admit(t, order(t, c))
	for reason, req := range map[fault.Reason]*billingv1.SetAccountStateRequest{
		fault.InvalidValue:    {AccountId: c.account, State: "closed", Memo: "test"},
		fault.AccountNotFound: {AccountId: newRequest(t), State: "open", Memo: "test"},
	} {
		if _, err := f.accounts.SetAccountState(t.Context(), req); !fault.Is(err, reason) {
			t.Errorf("%v: got the error %v, want the reason %v", req, err, reason)
		}
	}
	if _, err := f.accounts.SetAccountState(t.Context(), &billingv1.SetAccountStateRequest{AccountId: c.account,
		State: "frozen"}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("without a reason: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	f.sound(t)
}
