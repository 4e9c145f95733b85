package settlement_test

import (
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

// approved has a payout wait until treasurer approves it, who has been an operator for a day. The role of an operator
// who approves must be for money, and an operator who is new approves nothing.
func (c *town) approved(t *testing.T, id string, carer, treasurer *trial.Operator) {
	t.Helper()
	path := "payouts/" + id + "/approve"
	const body = `{"reason":"known"}`
	trial.Until(t, "the payout waits for an operator", func() bool {
		list, _ := c.Admin(t, http.MethodGet, "/api/v1/admin/payouts", "")["list"].([]any)
		return slices.ContainsFunc(list, func(one any) bool { return trial.At(one, "waiting") == "approval" })
	})
	carer.Call(t, http.StatusForbidden, http.MethodPost, path, carer.SignIn(t), body)
	late := c.NewOperator(t, "lea", "treasurer")
	refused := late.Call(t, http.StatusForbidden, http.MethodPost, path, late.SignIn(t), body)
	if got := trial.Text(t, refused, "error", "message"); !strings.Contains(got, "24 hours") {
		t.Errorf("a new operator: got %q, want when it may approve", got)
	}
	treasurer.Call(t, http.StatusOK, http.MethodPost, path, treasurer.SignIn(t), body)
	var actor string
	if err := c.db.QueryRow(t.Context(), `SELECT actor FROM settlement.payout_approval WHERE payout_id = $1`, id).Scan(
		&actor); err != nil {
		t.Fatal(err)
	}
	if want := "operator:tom@" + treasurer.ID; actor != want {
		t.Errorf("who approved: got %q, want %q", actor, want)
	}
}

func TestEarningsArePaidInDollarsOnceAndTheRestBecomesCredit(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newTown(t, "SVC_SETTLEMENT_PAYOUTS_ALONE_USD=12")
	carer, treasurer := c.NewOperator(t, "ann", "support"), c.NewOperator(t, "tom", "treasurer")
	o := c.newOwner(t, "bob", 0xb1)
	o.serveWithCollateral(t, 8453)
	o.Earn(t, 60)
	c.NextDay(t)
	o.Payable(t)
	c.Pass(t, 24*time.Hour) // from now on ann and tom may approve
	o.Login(t)
	before := c.dollars(t, 8453, o.Wallet)
	id := o.Ask(t, "12.50", "first")
	c.approved(t, id, carer, treasurer)
	paid := o.Confirmed(t, id)
	if got, want := new(big.Int).Sub(c.dollars(t, 8453, o.Wallet), before), big.NewInt(11_500_000); got.Cmp(want) != 0 {
		t.Errorf("dollars that arrived: got %s, want %s", got, want)
	}
	if again := c.Wants(t, http.StatusCreated, http.MethodPost, "/api/v1/provider/payouts", o.Token,
		`{"amount_usd":"12.50"}`, "Idempotency-Key", "first"); again["payout_id"] != paid["payout_id"] {
		t.Errorf("the same key again: got %v, want %v", again["payout_id"], paid["payout_id"])
	}
	c.Wants(t, http.StatusConflict, http.MethodPost, "/api/v1/provider/payouts", o.Token, `{"amount_usd":"12.50"}`,
		"Idempotency-Key", "second")
	c.Wants(t, http.StatusForbidden, http.MethodPost, "/api/v1/provider/payouts", o.Key, `{"amount_usd":"12.50"}`,
		"Idempotency-Key", "stolen")
	c.Wants(t, http.StatusOK, http.MethodPost, "/api/v1/provider/convert", o.Token, `{"amount_usd":"0.5"}`,
		"Idempotency-Key", "convert")
	earnings := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", o.Key, "")
	for field, want := range map[string]string{
		"paid_usd_str": "12.50", "converted_usd_str": "0.50", "in_flight_usd_str": "0.00",
	} {
		if got := earnings[field]; got != want {
			t.Errorf("%s: got %v, want %s, of %v", field, got, want, earnings)
		}
	}
	c.verified(t)
}

// Consumers fund themselves before, in the same marketplace, and one does all that the README shows.
func TestEarningsArePaidInTheCoinOfChain254(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newTown(t)
	o := c.newOwner(t, "cid", 0xc1)
	o.serveWithCollateral(t, 254)
	stray := c.consumersFundThemselves(t)
	c.walk(t)
	o.Earn(t, 60)
	c.NextDay(t)
	c.waitStray(t, stray, "4")
	o.Payable(t)
	before := c.ask(t, 254, "eth_getBalance", o.Wallet.String(), "latest")
	paid := o.Confirmed(t, o.Ask(t, "10", "coins"))
	after := c.ask(t, 254, "eth_getBalance", o.Wallet.String(), "latest")
	got := new(big.Int).Sub(after, before)
	if want := trial.Text(t, paid, "amount"); got.String() != want {
		t.Errorf("coins that arrived: got %s, want %s of %v", got, want, paid)
	}
	if got.Sign() <= 0 {
		t.Errorf("coins that arrived: got %s, want some", got)
	}
	c.verified(t)
}
