package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/subscription"
)

func TestForgedNewsOfASubscriptionChangeNothing(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c, other := e.consumer(t, 0), e.consumer(t, 0)
	b := e.subscribed(t, c)
	e.hear(t, b, invoice("1", 0, aMonth))
	fresh := func() *subscription.Invoice { return invoice("2", 0, 2*aMonth) }
	for name, tc := range map[string]struct {
		change func(*subscription.News)
		want   error
	}{
		"a foreign subscription": {func(n *subscription.News) { n.Object = "sub_mine" }, subscription.ErrDiffers},
		"another account":        {func(n *subscription.News) { n.Account = other.account }, subscription.ErrDiffers},
		"no account":             {func(n *subscription.News) { n.Account = ids.AccountID{1} }, subscription.ErrNone},
		"a foreign checkout": {func(n *subscription.News) { n.Checkout = request(t).String() },
			subscription.ErrNone},
		"the payment of another invoice": {func(n *subscription.News) { n.Invoice.Payment.ID = "pi_1" },
			subscription.ErrDiffers},
		"the cost of another payment": {func(n *subscription.News) { n.Invoice.Payment.CostID = "bt_1" },
			subscription.ErrDiffers},
		"another payment of a known invoice": {func(n *subscription.News) { n.Invoice.ID = "in_1" },
			subscription.ErrDiffers},
	} {
		n := newsOf(b, fresh())
		tc.change(&n)
		if err := e.sales().Hear(t.Context(), n, newEntryID); !errors.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %v", name, err, tc.want)
		}
	}
	cheap := newsOf(b, fresh())
	cheap.Invoice.Payment.Total = planPrice / 6
	if err := e.sales().Hear(t.Context(), cheap, newEntryID); err == nil {
		t.Error("an invoice of another price: got no error, want one")
	}
	e.wantState(t, c, subscription.Active, "")
	if got := scan[int64](t, e, `SELECT count(*) FROM plan_invoice`); got != 1 {
		t.Errorf("invoices: got %d, want 1", got)
	}
	e.sound(t)
}

func TestNoMoreGoesBackOfAnInvoiceThanWasPaid(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	e.hear(t, e.subscribed(t, c), invoice("1", 0, aMonth))
	for _, tc := range []struct {
		id, payment string
		amount      money.NanoUSD
		want        error
	}{
		{"re_9", "pi_9", planPrice, subscription.ErrNoInvoice},
		{"re_2", "pi_1", 2 * planPrice, subscription.ErrExceeds},
		{"re_1", "pi_1", planPrice / 2, nil},
		{"re_1", "pi_1", planPrice / 2, nil},
		{"re_1", "pi_1", planPrice / 3, subscription.ErrDiffers},
		{"re_2", "pi_1", planPrice, subscription.ErrExceeds},
	} {
		back := subscription.Return{ID: tc.id, Payment: tc.payment, Amount: tc.amount}
		if err := e.sales().GiveBack(t.Context(), back, newEntryID); !errors.Is(err, tc.want) {
			t.Errorf("%s of %s, %s: got the error %v, want %v", tc.id, tc.payment, tc.amount, err, tc.want)
		}
	}
	e.wantState(t, c, subscription.Active, "")
	e.sound(t)
}

func TestAPageThatWasLeftIsNoObstacleToAnother(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	begin := func() subscription.Subscription {
		t.Helper()
		b, err := e.sales().Begin(t.Context(), subscription.Subscription{ID: newSubscription(t), Account: c.account,
			Plan: "pro", Price: planPrice, Checkout: e.page(t, c.account)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := begin()
	if again := begin(); again.ID != first.ID {
		t.Errorf("while the page is open: got %s, want %s", again.ID, first.ID)
	}
	e.exec(t, `UPDATE checkout SET expires_at = now()`)
	if second := begin(); second.ID == first.ID {
		t.Error("once the page is over: got the same subscription, want another")
	}
	// The first page was paid at the last moment, and the news of it is late.
	e.exec(t, `UPDATE checkout SET state = 'paid', paid_at = now() WHERE id = $1::text::uuid`, first.Checkout)
	e.hear(t, first, invoice("1", 0, aMonth))
	e.wantState(t, c, subscription.Active, "")
	e.wantPays(t, c, hold.Plan)
	e.sound(t)
}

func TestAnOperatorsPlanIsNeitherSoldNorMoved(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	b := e.subscribed(t, c)
	e.hear(t, b, invoice("1", time.Hour, aMonth))
	e.makePlan(t, "enterprise", roomy)
	e.subscribe(t, c, "enterprise", time.Time{})
	e.hear(t, b, invoice("2", 0, 2*aMonth))
	s, err := e.store.Subscription(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	if s.Plan != "enterprise" || !s.Until.IsZero() {
		t.Errorf("plan: got %s until %v, want enterprise without an end", s.Plan, s.Until)
	}
	e.wantGivenBack(t, "in_2", subscription.Surplus)
	_, err = e.sales().Begin(context.WithoutCancel(t.Context()), subscription.Subscription{ID: newSubscription(t),
		Account: c.account, Plan: "pro", Price: planPrice, Checkout: e.page(t, c.account)})
	if !errors.Is(err, subscription.ErrHasPlan) {
		t.Errorf("got the error %v, want %v", err, subscription.ErrHasPlan)
	}
	e.sound(t)
}

// Requests come to three replicas while others renew, cancel and go on. As many are covered as the
// plan has in a day, and not one more; the others are paid from credit.
func TestRenewalsOnThreeReplicasLeaveALimitExactAtItsEdge(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 10*money.USD)
	e.makePlan(t, "small", limits{requests: 30, images: 1000, tokens: 1000, rate: 1000, concurrent: 1000})
	b := e.subscribed(t, c)
	e.exec(t, `UPDATE subscription SET plan_id = 'small'`)
	e.hear(t, b, invoice("0", time.Hour, aMonth))
	var work sync.WaitGroup
	var covered, paid atomic.Int64
	for _, pool := range e.pools(t, 3, nil) {
		replica := store.Subscriptions{Store: store.New(pool, unlimited, terms)}
		requests := make([]hold.Reservation, 20)
		for n := range requests {
			requests[n] = e.standard(t, c, 1)
		}
		work.Go(func() {
			for n, r := range requests {
				got, err := replica.Admit(t.Context(), []hold.Reservation{r})
				if err != nil {
					t.Error(err)
					return
				}
				switch got[0].Admission.Billing {
				case hold.Plan:
					covered.Add(1)
				case hold.PayAsYouGo:
					paid.Add(1)
				case hold.Free:
				}
				renewal := invoice(fmt.Sprint(n/4+1), 0, aMonth+time.Duration(n/4)*time.Hour)
				if err := replica.Hear(t.Context(), newsOf(b, renewal), newEntryID); err != nil {
					t.Error(err)
				}
				if _, err := replica.SetCancel(t.Context(), c.account, n%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if covered.Load() != 30 || paid.Load() != 30 {
		t.Errorf("covered %d and paid %d, want 30 of each", covered.Load(), paid.Load())
	}
	if n := e.used(t, c, plan.Requests, "day"); n != 30 {
		t.Errorf("requests of the day: got %d, want 30", n)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM account_plan`); n != 1 {
		t.Errorf("rows of plans: got %d, want 1", n)
	}
	e.sound(t)
}
