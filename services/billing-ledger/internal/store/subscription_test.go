package store_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/subscription"
)

const planPrice = 6 * money.USD

func newEntryID() (ids.EntryID, error) { return ids.NewEntry(time.Now(), rand.Reader) }

func (e *env) sales() store.Subscriptions { return store.Subscriptions{Store: e.store} }

// page is an open page of a plan.
func (e *env) page(t testing.TB, account ids.AccountID) string {
	t.Helper()
	id := newSubscription(t).String()
	e.exec(t, `INSERT INTO checkout (id, purpose, account_id, plan_id, cents, fee_cents, processor, livemode, return_url,
			session_id, url, expires_at)
		VALUES ($1::text::uuid, 'plan', $2, 'pro', 600, 0, 'sandbox', false, 'x', $1::text, 'x',
			now() + interval '1 hour')`, id, account)
	return id
}

// subscribed is a consumer with an incomplete subscription, whose page will be paid.
func (e *env) subscribed(t testing.TB, c consumer) subscription.Subscription {
	t.Helper()
	b := subscription.Subscription{ID: newSubscription(t), Account: c.account, Plan: "pro", Price: planPrice,
		Checkout: e.page(t, c.account)}
	stands, err := e.sales().Begin(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	e.exec(t, `UPDATE checkout SET state = 'paid', paid_at = now() WHERE id = $1::text::uuid`, b.Checkout)
	return stands
}

func newSubscription(t testing.TB) (id subscription.ID) {
	t.Helper()
	if _, err := rand.Read(id[:]); err != nil {
		t.Fatal(err)
	}
	return id
}

// invoice is a paid invoice of a period that began so long ago.
func invoice(name string, began, length time.Duration) *subscription.Invoice {
	start := time.Now().Add(-began).Truncate(time.Second)
	return &subscription.Invoice{ID: "in_" + name, PeriodStart: start, PeriodEnd: start.Add(length), Paid: start,
		Payment: subscription.Payment{ID: "pi_" + name, CostID: "bt_" + name, Total: planPrice, Cost: 47 * money.USD / 100}}
}

const aMonth = 30 * 24 * time.Hour

func (e *env) hear(t testing.TB, b subscription.Subscription, i *subscription.Invoice) {
	t.Helper()
	if err := e.sales().Hear(t.Context(), newsOf(b, i), newEntryID); err != nil {
		t.Fatal(err)
	}
}

func newsOf(b subscription.Subscription, i *subscription.Invoice) subscription.News {
	return subscription.News{Checkout: b.Checkout, Object: "sub_" + b.Checkout, Account: b.Account, Invoice: i}
}

// look does what the clock does.
func (e *env) look(t testing.TB, account ids.AccountID) subscription.Subscription {
	t.Helper()
	b, err := e.sales().Current(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.sales().Tick(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if b, err = e.sales().Current(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	return b
}

func (e *env) wantState(t testing.TB, c consumer, want subscription.State, cause subscription.Cause) {
	t.Helper()
	if b := e.look(t, c.account); b.State != want {
		t.Fatalf("state: got %s (%s), want %s", b.State, b.Cause, want)
	} else if b.Cause != cause {
		t.Fatalf("cause: got %q, want %q", b.Cause, cause)
	}
}

// pass has so much time pass for all that the clock decides about subscriptions.
func (e *env) pass(t testing.TB, d time.Duration) {
	t.Helper()
	e.exec(t, `UPDATE subscription SET period_start = period_start - $1::interval, period_end = period_end - $1::interval,
		due_at = due_at - $1::interval, tell_at = tell_at - $1::interval, ended_at = ended_at - $1::interval,
		created_at = created_at - $1::interval`, d)
	e.exec(t, `UPDATE plan_invoice SET period_start = period_start - $1::interval,
		period_end = period_end - $1::interval, paid_at = paid_at - $1::interval`, d)
	e.exec(t, `UPDATE account_plan SET from_at = from_at - $1::interval, until_at = until_at - $1::interval`, d)
}

// wantPays admits a request of the standard tier, and says who pays for it.
func (e *env) wantPays(t testing.TB, c consumer, want hold.BillingType) {
	t.Helper()
	if got := e.admitOne(t, e.standard(t, c, 1), hold.Admitted); got.Billing != want {
		t.Errorf("paid by: got %s, want %s", got.Billing, want)
	}
}

// poolNow is the pool of this month.
func (e *env) poolNow(t testing.TB) money.NanoUSD {
	t.Helper()
	return money.NanoUSD(scan[int64](t, e, `SELECT coalesce(sum(amount), 0)::bigint FROM posting
		WHERE account_kind = 'l:plan_pool'`))
}

func TestAPaidInvoiceBeginsThePlanAndJoinsThePool(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	b := e.subscribed(t, c)
	e.wantState(t, c, subscription.Incomplete, "")
	e.wantPays(t, c, hold.PayAsYouGo)
	i := invoice("1", time.Minute, aMonth)
	for range 3 {
		e.hear(t, b, i)
	}
	e.wantState(t, c, subscription.Active, "")
	e.wantPays(t, c, hold.Plan)
	if got := e.poolNow(t); got != planPrice {
		t.Errorf("pool: got %s, want %s", got, planPrice)
	}
	until := scan[time.Time](t, e, `SELECT until_at FROM account_plan WHERE account_id = $1`, c.account)
	if want := i.PeriodEnd.Add(subscription.Grace); !until.Equal(want) {
		t.Errorf("the plan's end: got %v, want %v", until, want)
	}
	e.sound(t)
}

// A period ends in the middle of a week, whose counter goes on.
func TestAnUnpaidPlanIsPastDueFor72HoursAndALaterPaymentBeginsAnew(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	b := e.subscribed(t, c)
	e.hear(t, b, invoice("1", time.Hour, aMonth))
	e.wantPays(t, c, hold.Plan)
	e.pass(t, aMonth)
	e.wantState(t, c, subscription.PastDue, "")
	e.wantPays(t, c, hold.Plan)
	e.hear(t, b, nil) // a card that was declined changes nothing
	e.wantState(t, c, subscription.PastDue, "")
	e.pass(t, subscription.Grace-2*time.Hour)
	e.wantState(t, c, subscription.PastDue, "")
	e.wantPays(t, c, hold.Plan)
	if n := e.used(t, c, plan.Requests, "day"); n != 3 {
		t.Errorf("requests of the day: got %d, want 3", n)
	}
	e.pass(t, 2*time.Hour)
	e.wantPays(t, c, hold.PayAsYouGo)
	e.wantState(t, c, subscription.Ended, subscription.Unpaid)
	late := invoice("2", subscription.Grace, aMonth)
	late.Paid = time.Now()
	e.hear(t, b, late)
	e.wantState(t, c, subscription.Active, "")
	e.wantPays(t, c, hold.Plan)
	if n := scan[int64](t, e, `SELECT count(*) FROM subscription`); n != 2 {
		t.Errorf("subscriptions: got %d, want 2", n)
	}
	e.sound(t)
}

func TestARenewalWithinTheGraceGoesOnWithoutAGap(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	b := e.subscribed(t, c)
	first := invoice("1", aMonth-time.Minute, aMonth)
	e.hear(t, b, first)
	e.pass(t, time.Hour)
	e.wantState(t, c, subscription.PastDue, "")
	e.hear(t, b, invoice("2", 0, aMonth))
	e.wantState(t, c, subscription.Active, "")
	e.wantPays(t, c, hold.Plan)
	if n := scan[int64](t, e, `SELECT count(*) FROM account_plan`); n != 1 {
		t.Errorf("rows of plans: got %d, want 1", n)
	}
	e.hear(t, b, first)
	e.wantState(t, c, subscription.Active, "")
	e.sound(t)
}

func TestWhoCancelsKeepsThePlanToThePeriodsEndAndMayGoOn(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	b := e.subscribed(t, c)
	e.hear(t, b, invoice("1", time.Hour, aMonth))
	cancel := func(want bool) {
		t.Helper()
		if b, err := e.sales().SetCancel(t.Context(), c.account, want); err != nil {
			t.Fatal(err)
		} else if b.Cancel != want {
			t.Errorf("cancelled: got %t, want %t", b.Cancel, want)
		}
		told, err := e.sales().TakeTells(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 || told[0].Cancel != want {
			t.Fatalf("to tell: got %+v, want one with the cancel %t", told, want)
		}
		if err := e.sales().Told(t.Context(), told[0]); err != nil {
			t.Fatal(err)
		}
	}
	cancel(true)
	cancel(false)
	cancel(true)
	e.wantState(t, c, subscription.Active, "")
	e.wantPays(t, c, hold.Plan)
	e.pass(t, aMonth)
	e.wantPays(t, c, hold.PayAsYouGo)
	e.wantState(t, c, subscription.Ended, subscription.Cancelled)
	// The card processor charged before it heard of the cancel.
	e.hear(t, b, invoice("2", 0, aMonth))
	e.wantState(t, c, subscription.Ended, subscription.Cancelled)
	e.wantPays(t, c, hold.PayAsYouGo)
	e.wantGivenBack(t, "in_2", subscription.Surplus)
	e.sound(t)
}

// wantGivenBack gives an invoice back as the worker does.
func (e *env) wantGivenBack(t testing.TB, id string, cause subscription.Verdict) {
	t.Helper()
	if got := scan[string](t, e, `SELECT coalesce(refund_cause, '') FROM plan_invoice WHERE id = $1`,
		id); got != string(cause) {
		t.Errorf("cause of the refund: got %q, want %q", got, cause)
	}
	due, err := e.sales().TakeRefunds(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(due) != 1 || due[0].Invoice != id {
		t.Fatalf("refunds: got %+v, want one of %s", due, id)
	}
	if due[0].Amount != planPrice {
		t.Errorf("amount: got %s, want %s", due[0].Amount, planPrice)
	}
	back := subscription.Return{ID: "re_" + id, Payment: due[0].Payment, Amount: planPrice}
	for range 2 {
		if err := e.sales().GiveBack(t.Context(), back, newEntryID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARefundEndsThePlanNowAndLowersItsOwnMonth(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	b := e.subscribed(t, c)
	e.hear(t, b, invoice("1", time.Hour, aMonth))
	e.wantPays(t, c, hold.Plan)
	for range 2 {
		if err := e.sales().AskRefund(t.Context(), "in_1", "asked for it"); err != nil {
			t.Fatal(err)
		}
	}
	e.wantState(t, c, subscription.Ended, subscription.WasRefunded)
	e.wantPays(t, c, hold.PayAsYouGo)
	if got := e.poolNow(t); got != planPrice {
		t.Errorf("pool before the money is back: got %s, want %s", got, planPrice)
	}
	e.wantGivenBack(t, "in_1", "operator")
	if got := e.poolNow(t); got != 0 {
		t.Errorf("pool: got %s, want 0", got)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM operator_action WHERE action = 'refund_plan'`); n != 1 {
		t.Errorf("audited: got %d, want 1", n)
	}
	e.sound(t)
}

func TestADisputedPaymentOfAPlanFreezesUntilTheDisputeEnds(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		e := setup(t, unlimited)
		c := e.consumer(t, money.USD)
		i := invoice("1", time.Hour, aMonth)
		e.hear(t, e.subscribed(t, c), i)
		back := subscription.Return{ID: "dp_1", Payment: i.Payment.ID, Amount: planPrice, Disputed: true, Over: over}
		e.wantFrozen(t, c, back, map[bool]string{true: "open", false: "frozen"}[over])
		back.Over = true
		e.wantFrozen(t, c, back, "open")
		back.Over = false // an old look comes last
		e.wantFrozen(t, c, back, "open")
		e.wantState(t, c, subscription.Ended, subscription.WasRefunded)
		e.sound(t)
	}
}

// wantFrozen gives a payment back, twice, and wants the account in a state.
func (e *env) wantFrozen(t *testing.T, c consumer, back subscription.Return, want string) {
	t.Helper()
	for range 2 {
		if err := e.sales().GiveBack(t.Context(), back, newEntryID); err != nil {
			t.Fatal(err)
		}
		if got := scan[string](t, e, `SELECT state FROM account WHERE id = $1`, c.account); got != want {
			t.Errorf("the account, over=%t: got %s, want %s", back.Over, got, want)
		}
	}
}

func TestARefundNeverLowersAClosedMonth(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	b := e.subscribed(t, c)
	i := invoice("1", time.Hour, aMonth)
	e.hear(t, b, i)
	e.closeMonth(t, i.Paid)
	back := subscription.Return{ID: "dp_1", Payment: i.Payment.ID, Amount: planPrice}
	if err := e.sales().GiveBack(t.Context(), back, newEntryID); err != nil {
		t.Fatal(err)
	}
	if got := e.poolNow(t); got != planPrice {
		t.Errorf("pool of the closed month: got %s, want %s", got, planPrice)
	}
	if got := scan[int64](t, e, `SELECT coalesce(-sum(amount), 0)::bigint FROM posting
		WHERE account_kind = 'e:goodwill'`); got != int64(planPrice) {
		t.Errorf("at the platform's cost: got %d, want %d", got, int64(planPrice))
	}
	e.wantState(t, c, subscription.Ended, subscription.WasRefunded)
}

// closeMonth has a month count as closed.
func (e *env) closeMonth(t testing.TB, at time.Time) {
	t.Helper()
	e.exec(t, `INSERT INTO closed_month (month, through, pool, earned, paid, providers)
		SELECT m, (m || '-01')::date + 40, 0, 0, 0, 0 FROM (SELECT $1::text AS m) v`, at.UTC().Format("2006-01"))
}

func TestAnInvoiceThatIsHeardOfTooLateJoinsThisMonth(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	b := e.subscribed(t, c)
	i := invoice("1", 40*24*time.Hour, 2*aMonth)
	e.closeMonth(t, i.Paid)
	e.hear(t, b, i)
	if got, want := scan[string](t, e, `SELECT month FROM plan_invoice`), time.Now().UTC().Format("2006-01"); got != want {
		t.Errorf("month: got %s, want %s", got, want)
	}
	e.wantState(t, c, subscription.Active, "")
}

func TestAPeriodThatWasOverWhenItWasPaidIsGivenBack(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	b := e.subscribed(t, c)
	e.hear(t, b, invoice("1", 0, aMonth))
	e.pass(t, 3*aMonth)
	late := invoice("2", 2*aMonth, aMonth)
	late.Paid = time.Now()
	e.hear(t, b, late)
	e.wantState(t, c, subscription.Ended, subscription.Unpaid)
	e.wantGivenBack(t, "in_2", subscription.Late)
}

func TestTwoPagesOfAnAccountAtOnceAreOneSubscription(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	var began sync.WaitGroup
	stands := make([]subscription.Subscription, 4)
	for n := range stands {
		b := subscription.Subscription{ID: newSubscription(t), Account: c.account, Plan: "pro", Price: planPrice,
			Checkout: e.page(t, c.account)}
		began.Go(func() {
			var err error
			if stands[n], err = e.sales().Begin(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
	began.Wait()
	for _, b := range stands {
		if b.ID != stands[0].ID {
			t.Errorf("subscription: got %s, want %s", b.ID, stands[0].ID)
		}
	}
	// Somebody pays a page that was left, and then another.
	old := stands[0]
	e.exec(t, `UPDATE checkout SET state = 'paid', paid_at = now() WHERE id = $1::text::uuid`, old.Checkout)
	if _, err := e.sales().SetCancel(t.Context(), c.account, true); err != nil {
		t.Fatal(err)
	}
	second := e.subscribed(t, c)
	var paid sync.WaitGroup
	for n, b := range []subscription.Subscription{old, second} {
		paid.Go(func() { e.hear(t, b, invoice(fmt.Sprint(n), 0, aMonth)) })
	}
	paid.Wait()
	if n := scan[int64](t, e, `SELECT count(*) FROM subscription WHERE state = 'active'`); n != 1 {
		t.Errorf("active: got %d, want 1", n)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM plan_invoice WHERE refund_cause = 'surplus'`); n != 1 {
		t.Errorf("given back: got %d, want 1", n)
	}
	e.wantGivenBack(t, scan[string](t, e, `SELECT id FROM plan_invoice WHERE refund_cause IS NOT NULL`), "surplus")
	if got := e.poolNow(t); got != planPrice {
		t.Errorf("pool: got %s, want %s", got, planPrice)
	}
	e.wantState(t, c, subscription.Active, "")
	e.sound(t)
}

// TestEveryOrderOfTheNewsOfARenewalEndsAlike hears of one renewal in every order: it was paid, it
// had failed before, it was paid (again), and, in half of the runs, it was refunded.
func TestEveryOrderOfTheNewsOfARenewalEndsAlike(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	for _, refunded := range []bool{false, true} {
		var want string
		for n, order := range permutations([]string{"paid", "failed", "doubled", "refunded"}) {
			c := e.consumer(t, 0)
			b := e.subscribed(t, c)
			name := fmt.Sprintf("%t-%d", refunded, n)
			e.hear(t, b, invoice(name+"-1", aMonth, aMonth))
			renewal := invoice(name+"-2", 0, aMonth)
			back := subscription.Return{ID: "re_" + name, Payment: renewal.Payment.ID, Amount: planPrice}
			for len(order) > 0 {
				news := order[0]
				order = order[1:]
				switch {
				case news == "failed":
					e.hear(t, b, nil)
				case news != "refunded":
					e.hear(t, b, renewal)
				case refunded:
					err := e.sales().GiveBack(t.Context(), back, newEntryID)
					if errors.Is(err, subscription.ErrNoInvoice) {
						order = append(order, news) // it is looked at again
					} else if err != nil {
						t.Fatal(err)
					}
				}
			}
			got := e.stateOf(t, c)
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("refunded %t, order %d: got %s, want %s", refunded, n, got, want)
			}
		}
		if ended := strings.Contains(want, "ended"); ended != refunded {
			t.Errorf("refunded %t: got %s", refunded, want)
		}
	}
	e.sound(t)
}

// stateOf is all that a consumer has of a subscription, without what differs by the clock.
func (e *env) stateOf(t testing.TB, c consumer) string {
	t.Helper()
	b := e.look(t, c.account)
	covered := scan[bool](t, e, `SELECT EXISTS (SELECT FROM account_plan WHERE account_id = $1 AND until_at > now())`,
		c.account)
	invoices := scan[string](t, e, `SELECT count(*) || ' invoices, ' || count(r.id) || ' back' FROM plan_invoice i
		LEFT JOIN plan_return r ON r.invoice_id = i.id WHERE i.account_id = $1`, c.account)
	return fmt.Sprintf("%s %s covered %t, %s", b.State, b.Cause, covered, invoices)
}

func permutations(all []string) (out [][]string) {
	if len(all) < 2 {
		return [][]string{append([]string(nil), all...)}
	}
	for n := range all {
		rest := append(append([]string(nil), all[:n]...), all[n+1:]...)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{all[n]}, p...))
		}
	}
	return out
}
