package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// plans are three replicas of the service whose database has a clock of the test's.
type plans struct {
	*env
	clock    *databaseClock
	replicas []store.Subscriptions
}

func (e *env) plansByClock(t testing.TB) plans {
	t.Helper()
	p := plans{env: e, clock: newDatabaseClock(t, e)}
	if _, err := e.owner.Exec(t.Context(), `CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql
		VOLATILE AS 'SELECT at FROM clock.clock'`); err != nil {
		t.Fatal(err)
	}
	for _, st := range e.replicas(t, 3, map[string]string{"search_path": p.clock.searchPath}) {
		p.replicas = append(p.replicas, store.Subscriptions{Store: st})
	}
	return p
}

// race has each replica admit so many requests at a moment, and returns how many the plan covers
// and how many credit pays for.
func (p plans) race(t testing.TB, c consumer, at time.Time, each int) (covered, paid int64) {
	t.Helper()
	p.clock.set(t, at)
	var byPlan, byCredit atomic.Int64
	var work sync.WaitGroup
	for _, replica := range p.replicas {
		requests := make([]hold.Reservation, each)
		for i := range requests {
			requests[i] = p.standard(t, c, 1)
		}
		work.Go(func() {
			for _, r := range requests {
				got, err := replica.Admit(t.Context(), []hold.Reservation{r})
				switch {
				case err != nil:
					t.Error(err)
				case got[0].Outcome != hold.Admitted:
					t.Errorf("at %v: got %s, want %s", at, got[0].Outcome, hold.Admitted)
				case got[0].Admission.Billing == hold.Plan:
					byPlan.Add(1)
				default:
					byCredit.Add(1)
				}
			}
		})
	}
	work.Wait()
	return byPlan.Load(), byCredit.Load()
}

func (p plans) wantPaidBy(t testing.TB, c consumer, at time.Time, want hold.BillingType) {
	t.Helper()
	covered, paid := p.race(t, c, at, 1)
	all := map[hold.BillingType]int64{hold.Plan: covered, hold.PayAsYouGo: paid}
	if all[want] != int64(len(p.replicas)) {
		t.Errorf("at %v: got %d covered and %d paid, want all of them by %s", at, covered, paid, want)
	}
}

// tick has all replicas look at the clock at once, and wants the state after it.
func (p plans) tick(t testing.TB, b subscription.Subscription, at time.Time, want subscription.State) {
	t.Helper()
	p.clock.set(t, at)
	var work sync.WaitGroup
	for _, replica := range p.replicas {
		work.Go(func() {
			if err := replica.Tick(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	stands, err := p.replicas[0].Current(t.Context(), b.Account)
	if err != nil {
		t.Fatal(err)
	}
	if stands.State != want {
		t.Errorf("at %v: got %s, want %s", at, stands.State, want)
	}
}

const moment = time.Microsecond

// A period is paid until its last microsecond, its plan ends 72 hours later to the microsecond, and
// a renewal at the very moment of either end goes on or begins anew. The clock jumps back between.
func TestAPlanIsExactAtTheMomentsOfRenewalFailedPaymentAndRefund(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	p := e.plansByClock(t)
	c := e.consumer(t, 10*money.USD)
	e.makePlan(t, "small", limits{requests: 1000, images: 1000, tokens: 100_000, rate: 100_000, concurrent: 1000})
	b := e.subscribed(t, c)
	e.exec(t, `UPDATE subscription SET plan_id = 'small'`)
	start := time.Now().Truncate(time.Second)
	hear := func(name string, at, from time.Time) time.Time {
		t.Helper()
		p.clock.set(t, at)
		i := invoice(name, 0, aMonth)
		i.PeriodStart, i.PeriodEnd, i.Paid = from, from.Add(aMonth), at
		for _, replica := range p.replicas {
			if err := replica.Hear(t.Context(), newsOf(b, i), newEntryID); err != nil {
				t.Fatal(err)
			}
		}
		return i.PeriodEnd
	}
	end := hear("1", start, start)
	p.wantPaidBy(t, c, start.Add(-moment), hold.PayAsYouGo)
	p.wantPaidBy(t, c, start, hold.Plan)
	p.tick(t, b, end.Add(-moment), subscription.Active)
	p.wantPaidBy(t, c, end, hold.Plan)
	p.tick(t, b, end, subscription.PastDue)
	p.wantPaidBy(t, c, end.Add(-aMonth/2), hold.Plan)

	// The payment comes at the last moment of the grace.
	last := end.Add(subscription.Grace - moment)
	p.tick(t, b, last, subscription.PastDue)
	p.wantPaidBy(t, c, last.Add(moment), hold.PayAsYouGo)
	renewed := hear("2", last, end)
	p.tick(t, b, last, subscription.Active)
	p.wantPaidBy(t, c, last.Add(moment), hold.Plan)
	p.wantPaidBy(t, c, end, hold.Plan)

	// The next payment fails, and the grace passes.
	over := renewed.Add(subscription.Grace)
	p.tick(t, b, renewed, subscription.PastDue)
	p.wantPaidBy(t, c, over.Add(-moment), hold.Plan)
	p.wantPaidBy(t, c, over, hold.PayAsYouGo)
	p.tick(t, b, over, subscription.Ended)
	p.wantPaidBy(t, c, over, hold.PayAsYouGo)
	p.wantPaidBy(t, c, over.Add(aMonth/2), hold.PayAsYouGo)

	// A payment that came after that begins another subscription, which is refunded.
	hear("3", over, over)
	p.wantPaidBy(t, c, over, hold.Plan)
	refunded := over.Add(time.Hour)
	p.clock.set(t, refunded)
	back := subscription.Return{ID: "re_3", Payment: "pi_3", Amount: planPrice}
	for _, replica := range p.replicas {
		if err := replica.GiveBack(t.Context(), back, newEntryID); err != nil {
			t.Fatal(err)
		}
	}
	p.wantPaidBy(t, c, refunded.Add(-moment), hold.Plan)
	p.wantPaidBy(t, c, refunded, hold.PayAsYouGo)
	e.sound(t)
}

// A day's requests are met exactly on each side of midnight, also when the plan is renewed at that
// moment, is past due, and when the clock is set back into the day before.
func TestTheLimitOfADayIsExactAroundARenewalAtMidnight(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	p := e.plansByClock(t)
	c := e.consumer(t, 10*money.USD)
	e.makePlan(t, "small", limits{requests: 7, images: 1000, tokens: 100_000, rate: 100_000, concurrent: 1000})
	b := e.subscribed(t, c)
	e.exec(t, `UPDATE subscription SET plan_id = 'small'`)
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	start := midnight.Add(-aMonth)
	i := invoice("1", 0, aMonth)
	i.PeriodStart, i.PeriodEnd, i.Paid = start, midnight, time.Now()
	e.hear(t, b, i)
	for _, at := range []struct {
		when    time.Time
		covered int64
	}{
		{midnight.Add(-moment), 7},
		{midnight, 7},                                  // past due
		{midnight.Add(-moment), 0},                     // the clock is set back
		{midnight.Add(24*time.Hour - moment), 0},       // the same day
		{midnight.Add(24 * time.Hour), 7},              // the next one, past due
		{midnight.Add(subscription.Grace), 0},          // ended
		{midnight.Add(48*time.Hour - 2*moment), 0},     // the day before is full, whoever asks
		{midnight.Add(subscription.Grace - moment), 7}, // the last moment of the grace
	} {
		covered, paid := p.race(t, c, at.when, 3)
		same(t, "covered at "+at.when.String(), covered, at.covered)
		same(t, "paid at "+at.when.String(), paid, 9-at.covered)
	}
	if n := scan[int64](t, e, `SELECT max(used) FROM plan_counter WHERE kind = $1 AND period = 'day'`,
		string(plan.Requests)); n != 7 {
		t.Errorf("requests of a day: got %d, want 7", n)
	}
	e.sound(t)
}
