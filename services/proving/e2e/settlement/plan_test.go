package settlement_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/node"
	"svc.internal/pkg/pg/devclock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/proving/internal/trial"
)

// sell posts a paid invoice of a plan into the pool of a month.
func (p *peered) sell(t *testing.T, month string, price int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	posting := billingv1.NewPostingServiceClient(p.dial(t, node.BillingLedger, node.Settlement))
	if _, err := posting.Post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_PlanSold{
		PlanSold: &billingv1.PlanSold{InvoiceId: "invoice-1", Month: month, PriceNanoUsd: price}}}); err != nil {
		t.Fatalf("sell a plan: %v", err)
	}
}

// buyCoins posts that the treasury bought five coins of chain 254 for a cent.
func (p *peered) buyCoins(t *testing.T, at time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	posting := billingv1.NewPostingServiceClient(p.dial(t, node.BillingLedger, node.Settlement))
	if _, err := posting.Post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_TreasuryMoved{
		TreasuryMoved: &billingv1.TreasuryMoved{ChainId: "254", TransactionHash: "0x" + strings.Repeat("5", 64),
			Sum: &billingv1.TokenSum{Token: "254:native", Units: 5_000_000_000, Quote: &billingv1.TokenQuote{
				RateNanoUsd: 2_000_000, Source: "test", At: timestamppb.New(at)}}}}}); err != nil {
		t.Fatalf("buy coins: %v", err)
	}
}

// month is the month that the database is in, and its first moment.
func (c *town) month(t *testing.T) (now, first time.Time, name string) {
	t.Helper()
	if err := c.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	now = now.UTC()
	first = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return now, first, first.Format("2006-01")
}

// shareOf checks what the provider reads of its month of plans.
func (o *owner) shareOf(t *testing.T, state, earned, paid string) {
	t.Helper()
	earnings := o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", o.Key, "")
	for field, want := range map[string]string{"state": state, "earned_usd_str": earned, "paid_usd_str": paid} {
		if got := trial.At(earnings, "months", 0, field); got != want {
			t.Errorf("%s's %s of the month: got %v, want %s, of %v", o.Name, field, got, want, earnings)
		}
	}
}

// Seven requests of $0.513 meet a pool of one dollar: 3/7 of it end on a remainder of 4/7 nano-dollars, 4/7 of it on
// one of 3/7. The odd nano-dollar goes to the larger remainder.
func TestTheMonthsPoolIsDividedToTheLastNanoDollar(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newPeered(t)
	gus, hal := c.newOwner(t, "gus", 0xa7), c.newOwner(t, "hal", 0xa8)
	const other = "test/dear-too"
	for o, model := range map[*owner]string{gus: dear, hal: other} {
		o.Deposit(t, 8453, minimum)
		o.ServeModel(t, model)
		o.WaitStatus(t, "active")
	}
	now, first, month := c.month(t)
	c.sell(t, month, 1_000_000_000)
	c.buyCoins(t, now)
	account, key := c.Consumer(t, "")
	c.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/plan", `{"plan":"pro"}`)
	for model, times := range map[string]int{dear: 3, other: 4} {
		for range times {
			c.Wants(t, http.StatusOK, http.MethodPost, trial.ChatPath, key, trial.Chat(model, ""))
		}
	}
	trial.Until(t, "all requests are settled", func() bool {
		return c.Reconciliation(t)["accruals_usd_str"] == "3.591"
	})
	gus.shareOf(t, "settlement_pending", "1.539", "0.00")

	// The second day of the next month ends.
	second := first.AddDate(0, 1, 1).Add(12 * time.Hour)
	c.Pass(t, second.Sub(now)+devclock.NextDay(second))
	var pool map[string]any
	trial.Until(t, "the month is closed", func() bool {
		status, _, body := c.Call(t, http.MethodGet, "/api/v1/stats/plan-pool/"+month, "", "")
		if status == http.StatusOK {
			pool = trial.Decode(t, body)
		}
		return pool != nil
	})
	for field, want := range map[string]any{"pool_usd_str": "1.00", "earned_usd_str": "3.591", "paid_usd_str": "1.00",
		"providers": 2.0} {
		if got := pool[field]; got != want {
			t.Errorf("the pool's %s: got %v, want %v, of %v", field, got, want, pool)
		}
	}
	gus.shareOf(t, "paid", "1.539", "0.428571429")
	hal.shareOf(t, "paid", "2.052", "0.571428571")
	trial.Until(t, "the coins are valued at the day's rate", func() bool {
		var valued bool
		if err := c.db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM settlement.revaluation
			WHERE token = '254:native' AND booked = 10000000 AND entry_id IS NOT NULL)`).Scan(&valued); err != nil {
			t.Fatal(err)
		}
		return valued
	})
	c.verified(t)
}
