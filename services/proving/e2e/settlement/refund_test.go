package settlement_test

import (
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

const refundPath = "/api/v1/provider/collateral/refund"

// refused calls the API as the owner, and fails the test unless it refuses the call for a reason.
func (o *owner) refused(t *testing.T, reason, path, body, key string) {
	t.Helper()
	status, _, answer := o.town.Call(t, http.MethodPost, path, o.Token, body, "Idempotency-Key", key)
	if status != http.StatusConflict {
		t.Fatalf("POST %s: got %d %s, want %d", path, status, answer, http.StatusConflict)
	}
	if got := trial.ErrorCode(answer); got != reason {
		t.Fatalf("POST %s: got %q, want %s", path, got, reason)
	}
}

// suspended reports whether the owner reads that a refund suspends the provider.
func (o *owner) suspended(t *testing.T) bool {
	t.Helper()
	collateral := o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/collateral", o.Key, "")
	causes, _ := collateral["suspensions"].([]any)
	return slices.Contains(causes, any("refund"))
}

// refund is the state of the provider's refund; nil without one that is open.
func (o *owner) refund(t *testing.T) any {
	t.Helper()
	return trial.At(o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/collateral", o.Key, ""),
		"refund", "state")
}

func TestCollateralIsBackAfterSevenDaysAndNotBesideAPayout(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newTown(t, "SVC_SETTLEMENT_PAYOUTS_ALONE_USD=0")
	o := c.newOwner(t, "fay", 0xf1)
	o.serveWithCollateral(t, 8453)
	deposited := c.dollars(t, 8453, o.Wallet)
	o.Earn(t, 60)
	c.NextDay(t)
	o.Payable(t)

	asked := c.Wants(t, http.StatusCreated, http.MethodPost, "/api/v1/provider/payouts", o.Token,
		`{"amount_usd":"12.50"}`, "Idempotency-Key", "payout")
	o.refused(t, "refund_blocked", refundPath, "", "early")
	c.Admin(t, http.MethodPost, "/api/v1/admin/payouts/"+trial.Text(t, asked, "payout_id")+"/cancel", `{"reason":"test"}`)

	refund := c.Wants(t, http.StatusOK, http.MethodPost, refundPath, o.Token, "", "Idempotency-Key", "refund")
	if refund["state"] != "asked" {
		t.Errorf("the refund: got %v, want one that is asked for", refund)
	}
	again := c.Wants(t, http.StatusOK, http.MethodPost, refundPath, o.Token, "", "Idempotency-Key", "again")
	if again["refund_id"] != refund["refund_id"] {
		t.Errorf("asked once more: got %v, want the refund %v", again, refund["refund_id"])
	}
	o.WaitStatus(t, "suspended")
	if !o.suspended(t) {
		t.Error("the causes of the suspension: got none that is a refund, want it")
	}
	trial.Until(t, "the contract was asked for the refund", func() bool {
		return o.position(t, 8453).refundAt.Sign() > 0
	})

	c.Pass(t, 6*24*time.Hour)
	o.Login(t)
	if got := o.refund(t); got != "asked" {
		t.Errorf("the refund after 6 days: got %v, want asked", got)
	}
	o.refused(t, "refund_open", "/api/v1/provider/payouts", `{"amount_usd":"12.50"}`, "beside")

	c.Pass(t, 24*time.Hour+time.Minute)
	o.waitPosition(t, 8453, "the contract has nothing of the depositor", 0, 0)
	want := new(big.Int).Add(deposited, big.NewInt(minimum*1_000_000))
	if got := c.dollars(t, 8453, o.Wallet); got.Cmp(want) != 0 {
		t.Errorf("dollars of the depositor: got %s, want %s", got, want)
	}
	trial.Until(t, "the refund is paid", func() bool {
		list := c.Admin(t, http.MethodGet, "/api/v1/admin/collateral/refunds", "")
		one := trial.At(list, "list", 0)
		return trial.At(one, "refund_id") == refund["refund_id"] && trial.At(one, "state") == "REFUND_STATE_PAID"
	})
	if got := o.refund(t); got != nil {
		t.Errorf("the open refund of the provider: got %v, want none", got)
	}
	if n := c.entries(t, "custody_out"); n != 1 {
		t.Errorf("what left the contract in the books: got %d entries, want 1", n)
	}
	o.WaitStatus(t, "pending")
	if o.suspended(t) {
		t.Error("the causes of the suspension: got the refund, want it lifted")
	}
	c.verified(t)
}
