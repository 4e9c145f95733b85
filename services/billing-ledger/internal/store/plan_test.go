package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// limits are the limits of a small plan for tests.
type limits struct{ requests, images, tokens, rate, concurrent, cents int64 }

var roomy = limits{requests: 1000, images: 1000, tokens: 1000, rate: 1000, concurrent: 1000}

// makePlan makes a plan. A plan with cents has a cap in money beside its cap in tokens.
func (e *env) makePlan(t testing.TB, name string, l limits) {
	t.Helper()
	if _, err := e.owner.Exec(t.Context(), `INSERT INTO plan (id) VALUES ($1)`, name); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		kind, period, unit string
		limit              int64
		enabled            bool
	}{
		{"requests", "day", "request", l.requests, true}, {"images", "day", "image", l.images, true},
		{"tokens", "week", "token", l.tokens, true},
		{"requests", "minute", "request", l.rate, true}, {"concurrent", "none", "request", l.concurrent, true},
		{"list_price", "month", "nano_usd", l.cents * int64(cent), l.cents > 0},
	} {
		tiers, draws := []int16{1, 2, 3}, []int16(nil)
		if row.kind == "tokens" || row.kind == "list_price" {
			tiers, draws = tiers[:2], tiers[1:2]
		}
		if _, err := e.owner.Exec(t.Context(), `INSERT INTO plan_limit VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			name, row.kind, row.period, row.unit, row.limit, row.enabled, tiers, draws); err != nil {
			t.Fatal(err)
		}
	}
}

// subscriber is a consumer on a plan of these limits.
func (e *env) subscriber(t testing.TB, credit money.NanoUSD, l limits) consumer {
	t.Helper()
	return e.onPlan(t, e.consumer(t, credit), l)
}

func (e *env) onPlan(t testing.TB, c consumer, l limits) consumer {
	t.Helper()
	name := "plan-" + c.account.String()[24:]
	e.makePlan(t, name, l)
	e.subscribe(t, c, name, time.Time{})
	return c
}

func (e *env) subscribe(t testing.TB, c consumer, name string, until time.Time) {
	t.Helper()
	if err := e.store.Subscribe(t.Context(), c.account, name, until); err != nil {
		t.Fatal(err)
	}
}

// standard is a claim that plans cover.
func (e *env) standard(t testing.TB, c consumer, tokens int64) hold.Reservation {
	t.Helper()
	reservation := e.reservation(t, c, tokens)
	reservation.Tier = plan.Standard
	return reservation
}

// used reads one counter of a plan, for the window under way.
func (e *env) used(t testing.TB, c consumer, kind plan.Kind, period string) int64 {
	t.Helper()
	s, err := e.store.Subscription(t.Context(), c.account)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if s == nil {
		t.Fatal("plan: got nil, want a value")
	}
	for _, counter := range s.Counters {
		if counter.Kind == kind && counter.Period == period {
			return counter.Used
		}
	}
	t.Fatalf("no counter of %s a %s", kind, period)
	return 0
}

func (e *env) wantUsed(t testing.TB, c consumer, requests, images, tokens int64) {
	t.Helper()
	r, i, k := e.used(t, c, plan.Requests, "day"), e.used(t, c, plan.Images, "day"), e.used(t, c, plan.Tokens, "week")
	switch {
	case r != requests:
		t.Fatalf(`%d requests, %d images and %d tokens are used: e.used(t, c, plan.Requests, "day"): got %d, want %d`, r, i,
			k, r, requests)
	case i != images:
		t.Fatalf(`%d requests, %d images and %d tokens are used: e.used(t, c, plan.Images, "day"): got %d, want %d`, r, i, k,
			i, images)
	case k != tokens:
		t.Fatalf(`%d requests, %d images and %d tokens are used: e.used(t, c, plan.Tokens, "week"): got %d, want %d`, r, i, k,
			k, tokens)
	}
}

func TestThePlanThatIsSoldIsData(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	e.subscribe(t, c, "pro", time.Time{})
	s, err := e.store.Subscription(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	type limit struct {
		kind    plan.Kind
		period  string
		limit   int64
		enabled bool
	}
	got := map[limit]bool{}
	for _, counter := range s.Counters {
		got[limit{counter.Kind, counter.Period, counter.Cap, counter.Enabled}] = true
		if ends := counter.WindowEnd.IsZero(); ends != (counter.Period == "none") {
			t.Errorf("the window of %s a %s ends at %v: got %t, want %t", counter.Kind, counter.Period, counter.WindowEnd, ends,
				counter.Period == "none")
		}
	}
	for _, want := range []limit{
		{plan.Requests, "day", 1500, true}, {plan.Images, "day", 75, true}, {plan.Requests, "minute", 50, true},
		{plan.Concurrent, "none", 8, true}, {plan.Tokens, "week", 40_000_000, true},
		{plan.ListPrice, "month", int64(24 * money.USD), false},
	} {
		if !got[want] {
			t.Errorf("limit %+v is not among %v", want, got)
		}
	}
}

func TestAPlanCoversAllOfARequestOrNothing(t *testing.T) {
	full := limits{requests: 2, images: 3, tokens: 10, rate: 100, concurrent: 100}
	for name, tc := range map[string]struct {
		before func(*hold.Reservation)
		change func(*hold.Reservation)
		credit money.NanoUSD
		want   hold.Outcome
		paid   hold.BillingType
	}{
		"standard tier": {want: hold.Admitted, paid: hold.Plan},
		"free tier that has a price": {change: func(c *hold.Reservation) { c.Tier = plan.Free },
			want: hold.Admitted, paid: hold.Plan},
		"premium tier": {change: func(c *hold.Reservation) { c.Tier = plan.Premium },
			credit: money.USD, want: hold.Admitted, paid: hold.PayAsYouGo},
		"premium tier without credit": {change: func(c *hold.Reservation) { c.Tier = plan.Premium },
			want: hold.CreditShort},
		"pinned": {change: func(c *hold.Reservation) { c.Pinned = true }, credit: money.USD,
			want: hold.Admitted, paid: hold.PayAsYouGo},
		"zero-priced": {change: zeroPriced, want: hold.Admitted, paid: hold.Free},
		"all of the allowance": {change: func(c *hold.Reservation) { c.MaxCompletionTokens = 10 },
			want: hold.Admitted, paid: hold.Plan},
		"a token more than the allowance": {change: func(c *hold.Reservation) { c.MaxCompletionTokens = 11 },
			credit: money.USD, want: hold.Admitted, paid: hold.PayAsYouGo},
		"that without credit": {change: func(c *hold.Reservation) { c.MaxCompletionTokens = 11 },
			credit: cent / 2, want: hold.PlanShort},
		"images within": {change: func(c *hold.Reservation) { c.Images = 3 }, want: hold.Admitted,
			paid: hold.Plan},
		"an image too many": {change: func(c *hold.Reservation) { c.Images = 4 }, credit: money.USD,
			want: hold.Admitted, paid: hold.PayAsYouGo},
		"no image when all images are used": {before: func(c *hold.Reservation) { c.Images = 3 }, want: hold.Admitted,
			paid: hold.Plan},
		"the prompt counts like the completion": {change: func(c *hold.Reservation) { c.PromptTokens = 10 },
			want: hold.PlanShort},
		"a tier that nobody knows is not covered": {change: func(c *hold.Reservation) { c.Tier = 0 }, want: hold.CreditShort},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.subscriber(t, tc.credit, full)
			requests := int64(0)
			if tc.before != nil {
				before := e.standard(t, c, 1)
				tc.before(&before)
				e.admitOne(t, before, hold.Admitted)
				requests++
			}
			reservation := e.standard(t, c, 1)
			if tc.change != nil {
				tc.change(&reservation)
			}
			got := e.admitOne(t, reservation, tc.want)
			if tc.want == hold.Admitted && got.Billing != tc.paid {
				t.Errorf("paid: got %s, want %s", got.Billing, tc.paid)
			}
			if tc.paid == hold.Plan {
				requests++
				e.wantWallet(t, c, tc.credit, 0)
			}
			if n := e.used(t, c, plan.Requests, "day"); n != requests {
				t.Errorf("got %d requests counted, want %d", n, requests)
			}
			e.sound(t)
		})
	}
}

// A model of the free tier takes no token of the allowance, which may be used up. The limits of
// requests hold for it all the same.
func TestTheFreeTierIsCoveredAndDrawsOnNoAllowance(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, limits{requests: 4, images: 1, tokens: 10, rate: 100, concurrent: 100, cents: 1000})
	admitted := func(tier plan.Tier, tokens int64, want hold.Outcome) hold.Reservation {
		t.Helper()
		r := e.standard(t, c, tokens)
		r.Tier = tier
		if got := e.admitOne(t, r, want); want == hold.Admitted && got.Billing != hold.Plan {
			t.Errorf("tier %d: paid by: got %s, want %s", tier, got.Billing, hold.Plan)
		}
		return r
	}
	admitted(plan.Standard, 10, hold.Admitted)
	free := admitted(plan.Free, 1000, hold.Admitted)
	e.wantUsed(t, c, 2, 0, 10)
	admitted(plan.Standard, 1, hold.PlanShort)
	e.settle(t, usage.Settled, e.served(t, free, 900))
	e.wantUsed(t, c, 2, 0, 10)
	if got := e.used(t, c, plan.ListPrice, "month"); got != int64(10*cent) {
		t.Errorf("list price counted: got %d, want %d", got, int64(10*cent))
	}
	admitted(plan.Free, 1, hold.Admitted)
	admitted(plan.Free, 1, hold.Admitted)
	admitted(plan.Free, 1, hold.PlanShort)
	e.sound(t)
}

func zeroPriced(c *hold.Reservation) {
	c.Rates, c.Amount, c.ZeroPriced, c.Billing = money.Rates{}, 0, true, hold.Free
}

func TestWhatThePlanHasNoRoomForIsPaidFromCreditAndNeverFlips(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 100*cent, limits{requests: 100, images: 10, tokens: 10, rate: 100, concurrent: 100})
	first, second := e.standard(t, c, 6), e.standard(t, c, 6)
	if got := e.admitOne(t, first, hold.Admitted); got.Billing != hold.Plan {
		t.Fatalf("first: Billing: got %q, want %q", got.Billing, hold.Plan)
	} else if got.Held != 0 {
		t.Fatalf("first: Held: got %v, want 0", got.Held)
	}
	if got := e.admitOne(t, second, hold.Admitted); got.Billing != hold.PayAsYouGo {
		t.Fatalf("second: Billing: got %q, want %q", got.Billing, hold.PayAsYouGo)
	} else if got.Held != 6*cent {
		t.Fatalf("second: Held: got %v, want %v", got.Held, 6*cent)
	}
	e.wantUsed(t, c, 1, 0, 6)
	// The first ends small and makes room; the second stays what it was.
	e.settle(t, usage.Settled, e.served(t, first, 1))
	e.wantUsed(t, c, 1, 0, 1)
	if again := e.admitOne(t, second, hold.Repeated); again.Billing != hold.PayAsYouGo {
		t.Fatalf("repeated: again.Billing: got %q, want %q", again.Billing, hold.PayAsYouGo)
	} else if again.Held != 6*cent {
		t.Fatalf("repeated: again.Held: got %v, want %v", again.Held, 6*cent)
	}
	if again := e.admitOne(t, first, hold.Repeated); again.Billing != hold.Plan {
		t.Fatalf("repeated: again.Billing: got %q, want %q", again.Billing, hold.Plan)
	} else if again.Held != 0 {
		t.Fatalf("repeated: again.Held: got %v, want 0", again.Held)
	}
	e.settle(t, usage.Settled, e.served(t, second, 4))
	e.wantUsed(t, c, 1, 0, 1)
	e.wantWallet(t, c, 96*cent, 0)
	if source := scan[string](t, e,
		`SELECT string_agg(source || ' ' || charged || ' ' || payout || ' ' || list_price, ', ' ORDER BY source)
			FROM usage_settlement`); source != "payg 40000000 28000000 40000000, plan 0 7000000 10000000" {
		t.Errorf(`settled: got %q, want "payg 40000000 28000000 40000000, plan 0 7000000 10000000"`, source)
	}
	e.sound(t)
}

func TestARequestTwiceInABatchIsCoveredOnce(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, limits{requests: 10, tokens: 10, rate: 10, concurrent: 10})
	reservation := e.standard(t, c, 4)
	other := e.standard(t, c, 6)
	got := e.admit(t, reservation, other, reservation)
	for i, want := range []hold.Outcome{hold.Admitted, hold.Admitted, hold.Repeated} {
		switch {
		case got[i].Outcome != want:
			t.Errorf("claim %d: got[i].Outcome: got %q, want %q", i, got[i].Outcome, want)
		case got[i].Admission.Billing != hold.Plan:
			t.Errorf("claim %d: got[i].Admission.Billing: got %q, want %q", i, got[i].Admission.Billing, hold.Plan)
		case got[i].Admission.Held != 0:
			t.Errorf("claim %d: got[i].Admission.Held: got %v, want 0", i, got[i].Admission.Held)
		}
	}
	e.wantUsed(t, c, 2, 0, 10)
	e.sound(t)
}

func TestRateAndConcurrencyOfAPlanRefuseAndNeverBill(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, money.USD, limits{requests: 100, tokens: 1000, rate: 3, concurrent: 2})
	first := e.standard(t, c, 1)
	if got := e.admitOne(t, first, hold.Admitted); got.Rate.Limit != 3 {
		t.Errorf("told: Rate.Limit: got %d, want 3", got.Rate.Limit)
	} else if got.Rate.Remaining != 2 {
		t.Errorf("told: Rate.Remaining: got %d, want 2", got.Rate.Remaining)
	}
	e.admitOne(t, e.standard(t, c, 1), hold.Admitted)
	e.admitOne(t, e.standard(t, c, 1), hold.PlanTooManyOpen)
	if used := e.used(t, c, plan.Requests, "minute"); used != 2 {
		t.Errorf("got %d requests told as used of the rate, want 2", used)
	}
	// What the plan does not cover has nothing to do with it.
	pinned := e.standard(t, c, 1)
	pinned.Pinned = true
	e.admitOne(t, pinned, hold.Admitted)
	// The gateway's word frees the place, long before anything is settled.
	e.conclude(t, servedWord(first.Request, 1))
	e.admitOne(t, e.standard(t, c, 1), hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, first, 1))
	switch got := e.admitOne(t, e.standard(t, c, 1), hold.PlanRateLimited); {
	case got.Rate.Limit != 3:
		t.Errorf("told: Rate.Limit: got %d, want 3", got.Rate.Limit)
	case got.Rate.Remaining != 0:
		t.Errorf("told: Rate.Remaining: got %d, want 0", got.Rate.Remaining)
	case got.Rate.Reset <= 0:
		t.Errorf("told: Rate.Reset: got %v, want more than 0", got.Rate.Reset)
	}
	e.wantWallet(t, c, money.USD, cent)
	e.rest(t, time.Minute)
	e.admitOne(t, e.standard(t, c, 1), hold.PlanTooManyOpen)
	e.sound(t)
}

func TestKeysOfAnAccountShareItsPlan(t *testing.T) {
	e := setup(t, unlimited)
	one := e.subscriber(t, 0, limits{requests: 100, tokens: 10, rate: 100, concurrent: 3})
	two := e.issue(t, one.account, key.IssueRequest{})
	verdicts := e.admit(t, e.standard(t, one, 4), e.standard(t, two, 4), e.standard(t, one, 2), e.standard(t, two, 1))
	admitted := 0
	for _, v := range verdicts {
		if v.Outcome == hold.Admitted {
			admitted++
		}
	}
	if admitted != 3 {
		t.Errorf("admitted: got %d, want 3", admitted)
	}
	if n := scan[int64](t, e, `SELECT open FROM plan_gate`); n != 3 {
		t.Errorf("places taken: got %d, want 3", n)
	}
	e.sound(t)
}

func TestSettlingMayPassTheCapAndIsNotCharged(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, money.USD, limits{requests: 100, tokens: 10, rate: 100, concurrent: 100})
	reservation := e.standard(t, c, 10)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.served(t, reservation, 10)
	d.Event.Billable.Prompt = 7
	e.settle(t, usage.Settled, d)
	e.wantUsed(t, c, 1, 0, 17)
	e.wantWallet(t, c, money.USD, 0)
	if excess := scan[int64](t, e, `SELECT excess FROM plan_counter WHERE kind = 'tokens'`); excess != 7 {
		t.Errorf("beyond the cap: got %d, want 7", excess)
	}
	if got := e.admitOne(t, e.standard(t, c, 1), hold.Admitted); got.Billing != hold.PayAsYouGo {
		t.Errorf("beyond the cap it is still covered: got %q, want %q", got.Billing, hold.PayAsYouGo)
	}
	e.sound(t)
}

func TestOnlyThePlatformsFailureGivesARequestBack(t *testing.T) {
	for name, tc := range map[string]struct {
		end              func(*testing.T, *env, hold.Reservation)
		requests, tokens int64
	}{
		"the platform served nothing": {func(t *testing.T, e *env, c hold.Reservation) { e.release(t, c.Request) }, 0, 0},
		"the caller left before": {func(t *testing.T, e *env, c hold.Reservation) {
			left := hold.RequestReport{Request: c.Request, Outcome: hold.ClientGone, HTTPStatus: 499, Attempts: []hold.Attempt{}}
			if n, _, err := e.store.Conclude(t.Context(), []hold.RequestReport{left}); n != 1 {
				t.Fatalf("released: got %d, want 1", n)
			} else if err != nil {
				t.Fatalf("got the error %v, want none", err)
			}
		}, 1, 0},
		"nobody told anything": {func(t *testing.T, e *env, _ hold.Reservation) {
			e.overdue(t)
			e.expire(t)
		}, 0, 0},
		"it was served in part": {func(t *testing.T, e *env, c hold.Reservation) {
			e.settle(t, usage.Settled,
				e.served(t, c, 2))
		}, 1, 2},
		"an empty answer": {func(t *testing.T, e *env, c hold.Reservation) {
			e.settle(t, usage.Settled,
				e.served(t, c, 0))
		}, 1, 0},
		"the provider broke off before anything": {func(t *testing.T, e *env, c hold.Reservation) {
			d := e.served(t, c, 0)
			d.Event.Ending = "provider_lost"
			e.settle(t, usage.Settled, d)
		}, 0, 0},
		"the caller broke off before anything": {func(t *testing.T, e *env, c hold.Reservation) {
			d := e.served(t, c, 0)
			d.Event.Ending = "client_gone"
			e.settle(t, usage.Settled, d)
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t, unlimited)
			c := e.subscriber(t, 0, roomy)
			reservation := e.standard(t, c, 5)
			reservation.Images = 3
			e.admitOne(t, reservation, hold.Admitted)
			e.wantUsed(t, c, 1, 3, 5)
			tc.end(t, e, reservation)
			e.wantUsed(t, c, tc.requests, 3*tc.requests, tc.tokens)
			if n := e.used(t, c, plan.Concurrent, "none"); n != 0 {
				t.Errorf("places taken: got %d, want 0", n)
			}
			e.sound(t)
		})
	}
}

func TestACapInMoneyCountsListPrices(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, limits{requests: 100, tokens: 1000, rate: 100, concurrent: 100, cents: 10})
	first := e.standard(t, c, 8)
	e.admitOne(t, first, hold.Admitted)
	e.admitOne(t, e.standard(t, c, 3), hold.PlanShort)
	e.settle(t, usage.Settled, e.served(t, first, 7))
	if used := e.used(t, c, plan.ListPrice, "month"); used != int64(7*cent) {
		t.Errorf("nano-USD used: got %d, want %d", used, int64(7*cent))
	}
	e.admitOne(t, e.standard(t, c, 3), hold.Admitted)
	e.sound(t)
}

// A limit counts while it is off, so that it can be turned on.
func TestALimitThatIsTurnedOnKnowsWhatWasUsed(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, roomy)
	e.admitOne(t, e.standard(t, c, 8), hold.Admitted)
	e.exec(t, `UPDATE plan_limit SET enabled = true, cap = $1 WHERE kind = 'list_price' AND plan_id <> 'pro'`,
		int64(10*cent))
	e.admitOne(t, e.standard(t, c, 3), hold.PlanShort)
	e.admitOne(t, e.standard(t, c, 2), hold.Admitted)
	e.sound(t)
}

func TestARequestIsCorrectedInTheWindowsOfItsAdmission(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, roomy)
	late := e.standard(t, c, 9)
	e.admitOne(t, late, hold.Admitted)
	e.exec(t, `UPDATE hold SET plan_day = plan_day - 7`)
	e.exec(t, `UPDATE plan_counter
		SET window_start = date_trunc(period, (window_start - CASE period WHEN 'month' THEN 0 ELSE 7 END)::timestamp)::date`)
	e.exec(t, `UPDATE plan_counter c SET window_start = date_trunc(period, h.plan_day::timestamp)::date FROM hold h
		WHERE period = 'month'`)
	e.admitOne(t, e.standard(t, c, 5), hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, late, 4))
	e.wantUsed(t, c, 1, 0, 5)
	if n := scan[int64](t, e,
		`SELECT used FROM plan_counter WHERE kind = 'tokens' ORDER BY window_start LIMIT 1`); n != 4 {
		t.Errorf("the week before: got %d tokens, want 4", n)
	}
	e.sound(t)
}

func TestPlansOfAnAccountNeverOverlap(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	e.makePlan(t, "a", roomy)
	e.makePlan(t, "b", roomy)
	var all sync.WaitGroup
	for i := range 20 {
		name := []string{"a", "b", ""}[i%3]
		all.Go(func() {
			if err := e.store.Subscribe(t.Context(), c.account, name, time.Time{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	e.subscribe(t, c, "a", time.Now().Add(time.Hour))
	e.subscribe(t, c, "a", time.Now().Add(2*time.Hour))
	if n := scan[int64](t, e, `SELECT count(*) FROM account_plan WHERE until_at IS NULL OR until_at > now()`); n != 1 {
		t.Errorf("plans in force: got %d, want 1", n)
	}
	refusedSQL(t, e, "one_plan_at_a_time", `INSERT INTO account_plan VALUES ($1, 'b', now() + interval '1 minute', NULL)`,
		[16]byte(c.account))
	e.subscribe(t, c, "", time.Time{})
	if s, err := e.store.Subscription(t.Context(), c.account); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if s != nil {
		t.Errorf("plan: got %+v, want nil", s)
	}
	e.admitOne(t, e.standard(t, c, 1), hold.CreditShort)
	for name, tc := range map[string]struct {
		account ids.AccountID
		plan    string
		until   time.Time
		want    error
	}{
		"no account": {ids.AccountID{1}, "a", time.Time{}, plan.ErrNoAccount},
		"no plan":    {c.account, "none", time.Time{}, plan.ErrNoPlan},
		"past end":   {c.account, "a", time.Now().Add(-time.Hour), plan.ErrPast},
	} {
		if err := e.store.Subscribe(t.Context(), tc.account, tc.plan, tc.until); !errors.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %v", name, err, tc.want)
		}
	}
}

func TestAPlanEndsAtItsEnd(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, roomy)
	running := e.standard(t, c, 4)
	e.admitOne(t, running, hold.Admitted)
	e.exec(t, `UPDATE account_plan SET from_at = from_at - interval '1 hour', until_at = now() - interval '1 second'`)
	e.admitOne(t, e.standard(t, c, 1), hold.CreditShort)
	e.settle(t, usage.Settled, e.served(t, running, 4))
	if source := scan[string](t, e, `SELECT source FROM usage_settlement`); source != "plan" {
		t.Errorf(`what ran was settled: got %q, want "plan"`, source)
	}
	e.sound(t)
}
