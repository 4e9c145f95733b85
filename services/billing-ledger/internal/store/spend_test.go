package store_test

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/usage"
)

// budgeted is a consumer whose key has a budget of so many cents.
func (e *env) budgeted(t testing.TB, credit money.NanoUSD, cents int64, period limit.Period) consumer {
	t.Helper()
	budget := limit.Budget{Amount: money.NanoUSD(cents) * cent, Period: period}
	_, c := e.own(t, e.consumer(t, credit).account, key.Settings{Budget: &budget})
	return c
}

// wantSpending wants a key's budget to count this much.
func (e *env) wantSpending(t testing.TB, c consumer, spent, held money.NanoUSD) {
	t.Helper()
	k, err := e.ownKeys.Get(t.Context(), c.account, c.key)
	if err != nil {
		t.Fatal(err)
	}
	if k.Spending.Spent != spent {
		t.Errorf("spent: got %s, want %s", k.Spending.Spent, spent)
	}
	if k.Spending.Held != held {
		t.Errorf("held: got %s, want %s", k.Spending.Held, held)
	}
}

func caps(day, month int64) limit.Caps {
	d, m := money.NanoUSD(day)*cent, money.NanoUSD(month)*cent
	return limit.Caps{Day: &d, Month: &m}
}

func (e *env) spending() *account.Spending { return &account.Spending{Store: e.store} }

func TestABudgetIsMetExactlyByRacingCallersOnThreeReplicas(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	byKey := e.budgeted(t, 100*money.USD, 7, limit.Day)
	byAccount := e.keysOf(t, 3, 100*money.USD)
	if _, err := e.spending().SetCaps(t.Context(), byAccount[0].account, caps(11, 50)); err != nil {
		t.Fatal(err)
	}
	var admitters []*hold.Admitter
	for _, st := range e.replicas(t, 3, nil) {
		a, stop := admitterOn(t, st, e.price, 2)
		defer stop()
		admitters = append(admitters, a)
	}
	var admitted [2]atomic.Int64
	var callers sync.WaitGroup
	for i := range 300 {
		who, c := i%2, byKey
		if who == 1 {
			c = byAccount[i%3]
		}
		order := hold.AdmitRequest{Request: request(t), Key: c.key, Model: "acme/large", MaxCompletionTokens: 1}
		callers.Go(func() {
			switch _, err := admitters[i%3].Admit(t.Context(), order); {
			case err == nil:
				admitted[who].Add(1)
			case !fault.Is(err, fault.InsufficientCredits):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	for who, want := range []int64{7, 11} {
		if got := admitted[who].Load(); got != want {
			t.Errorf("caller %d: got %d admitted, want %d", who, got, want)
		}
	}
	e.wantSpending(t, byKey, 0, 7*cent)
	e.sound(t)
}

func TestABudgetIsCorrectedByWhatARequestCameTo(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.budgeted(t, 100*cent, 10, limit.Week)
	below, above := e.reservation(t, c, 4), e.reservation(t, c, 2)
	void, lost := e.reservation(t, c, 3), e.reservation(t, c, 1)
	for _, r := range []hold.Reservation{below, above, void, lost} {
		e.admitOne(t, r, hold.Admitted)
	}
	e.wantSpending(t, c, 0, 10*cent)
	e.admitOne(t, e.reservation(t, c, 1), hold.KeyBudgetShort)
	e.settle(t, usage.Settled, e.served(t, below, 1))
	e.wantSpending(t, c, cent, 6*cent)
	e.release(t, void.Request)
	e.wantSpending(t, c, cent, 3*cent)
	e.overdue(t)
	e.expire(t)
	e.wantSpending(t, c, cent, 0)
	above = e.reservation(t, c, 8)
	e.admitOne(t, above, hold.Admitted)
	d := e.served(t, above, 8)
	d.Event.Billable.Prompt = 5
	e.settle(t, usage.Settled, d)
	e.wantSpending(t, c, 14*cent, 0)
	if got := scan[int64](t, e, `SELECT excess FROM spend_counter`); got != int64(4*cent) {
		t.Errorf("beyond the budget by settling: got %d, want %d", got, int64(4*cent))
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.KeyBudgetShort)
	// What costs nothing is not bounded by what may be spent.
	e.admitOne(t, e.free(t, c), hold.Admitted)
	// A larger budget goes on from what was spent, a lower one leaves nothing.
	for cents, want := range map[int64]hold.Outcome{20: hold.Admitted, 12: hold.KeyBudgetShort} {
		budget := limit.Budget{Amount: money.NanoUSD(cents) * cent, Period: limit.Week}
		if _, err := e.ownKeys.Change(t.Context(), c.account, c.key, key.Settings{Budget: &budget}); err != nil {
			t.Fatal(err)
		}
		r := e.reservation(t, c, 1)
		e.admitOne(t, r, want)
		e.release(t, r.Request)
	}
	e.sound(t)
}

func TestWhatAPlanCoversIsNoSpending(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.onPlan(t, e.budgeted(t, money.USD, 2, limit.Ever), limits{requests: 100, tokens: 5, rate: 100, concurrent: 100})
	covered := e.standard(t, c, 5)
	if got := e.admitOne(t, covered, hold.Admitted); got.Billing != hold.Plan {
		t.Errorf("billing: got %s, want %s", got.Billing, hold.Plan)
	}
	e.wantSpending(t, c, 0, 0)
	e.admitOne(t, e.standard(t, c, 3), hold.KeyBudgetShort)
	paid := e.standard(t, c, 2)
	e.admitOne(t, paid, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, paid, 2), e.served(t, covered, 5))
	e.wantSpending(t, c, 2*cent, 0)
	e.sound(t)
}

// A budget begins anew with its window, and what was admitted before counts where it was
// admitted, however late it ends and however the clock jumps.
func TestABudgetBeginsAnewWithItsWindow(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	clock := newDatabaseClock(t, e)
	st := e.replicas(t, 1, map[string]string{"search_path": clock.searchPath, "timezone": "Pacific/Kiritimati"})[0]
	e.keys.Store, e.ownKeys.Store, e.store, e.settler = st, st, st, &usage.Settler{Store: st}
	for period, jumps := range map[limit.Period][3]string{
		limit.Day:   {"2027-03-14T23:59:59Z", "2027-03-15T00:00:00Z", "2027-03-14T00:00:00Z"},
		limit.Week:  {"2027-01-03T23:59:59Z", "2027-01-04T00:00:00Z", "2026-12-28T00:00:00Z"},
		limit.Month: {"2027-10-31T23:59:59Z", "2027-11-01T00:00:00Z", "2027-10-01T00:00:00Z"},
	} {
		at := func(i int) {
			now, err := time.Parse(time.RFC3339, jumps[i])
			if err != nil {
				t.Fatal(err)
			}
			clock.set(t, now)
		}
		at(0)
		c := e.budgeted(t, 100*cent, 3, period)
		e.wantSpending(t, c, 0, 0)
		old := e.reservation(t, c, 3)
		e.admitOne(t, old, hold.Admitted)
		v := e.admit(t, e.reservation(t, c, 1))[0]
		if v.Outcome != hold.KeyBudgetShort {
			t.Errorf("%s: got %s, want %s", period, v.Outcome, hold.KeyBudgetShort)
		}
		if got := v.ResetsAt.UTC().Format(time.RFC3339); got != jumps[1] {
			t.Errorf("%s: begins anew at %s, want %s", period, got, jumps[1])
		}
		at(1)
		fresh := e.reservation(t, c, 2)
		e.admitOne(t, fresh, hold.Admitted)
		e.settle(t, usage.Settled, e.served(t, old, 1))
		e.wantSpending(t, c, 0, 2*cent)
		// The clock is set back to the first moment of the window before.
		at(2)
		e.wantSpending(t, c, cent, 0)
		e.admitOne(t, e.reservation(t, c, 3), hold.KeyBudgetShort)
		e.admitOne(t, e.reservation(t, c, 2), hold.Admitted)
		at(1)
		e.admitOne(t, e.reservation(t, c, 2), hold.KeyBudgetShort)
		e.wantSpending(t, c, 0, 2*cent)
	}
	e.sound(t)
}

func TestARotatedKeyHasTheBudgetAndTheLimitsThatItHad(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.budgeted(t, 100*cent, 3, limit.Ever)
	e.admitOne(t, e.reservation(t, c, 3), hold.Admitted)
	for _, until := range []time.Time{time.Now().Add(time.Hour), {}} {
		_, text, err := e.ownKeys.Rotate(t.Context(), c.account, c.key, until)
		if err != nil {
			t.Fatal(err)
		}
		for _, digest := range []apikey.Digest{c.digest, apikey.Sum(text)} {
			k, err := e.keys.Authenticate(t.Context(), digest)
			if err != nil {
				continue // the old text after a rotation without overlap
			}
			e.admitOne(t, e.reservation(t, consumer{account: k.Account, key: k.ID}, 1), hold.KeyBudgetShort)
		}
	}
	e.sound(t)
}

func TestTheStricterOfTwoCapsDecides(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	if _, err := e.accounts.SetLimits(t.Context(), c.account, limit.Limits{Caps: caps(5, 8)}); err != nil {
		t.Fatal(err)
	}
	set, err := e.spending().SetCaps(t.Context(), c.account, caps(90, 6))
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Day.Amount; got != 5*cent {
		t.Errorf("cap of the day: got %s, want the operator's %s", got, 5*cent)
	}
	if got := set.Month.Amount; got != 6*cent {
		t.Errorf("cap of the month: got %s, want the account's own %s", got, 6*cent)
	}
	first := e.reservation(t, c, 5)
	e.admitOne(t, first, hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 1), hold.DayCapShort)
	e.settle(t, usage.Settled, e.served(t, first, 4))
	e.exec(t, `UPDATE spend_counter SET spent = 0 WHERE period = 'day'`)
	v := e.admit(t, e.reservation(t, c, 3))[0]
	if v.Outcome != hold.MonthCapShort {
		t.Errorf("got %s, want %s", v.Outcome, hold.MonthCapShort)
	}
	e.exec(t, `UPDATE spend_counter SET spent = $1 WHERE period = 'day'`, int64(4*cent))
	left, err := e.spending().Get(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	if got := left.Month.Left(); got != 2*cent {
		t.Errorf("left of the month: got %s, want %s", got, 2*cent)
	}
	// The operator's limits stay when the account sets caps, and its caps when the operator does.
	if _, err := e.accounts.SetLimits(t.Context(), c.account, limit.Limits{RequestsPerMinute: 7}); err != nil {
		t.Fatal(err)
	}
	set, err = e.spending().SetCaps(t.Context(), c.account, limit.Caps{})
	if err != nil {
		t.Fatal(err)
	}
	if set.Limits.RequestsPerMinute != 7 {
		t.Errorf("requests per minute: got %d, want 7", set.Limits.RequestsPerMinute)
	}
	if set.Day != nil {
		t.Errorf("a cap of the day: got %+v, want none", set.Day)
	}
	e.admitOne(t, e.reservation(t, c, 50), hold.Admitted)
	e.sound(t)
}

// An amount beyond all bounds refuses its request and no other of the batch.
func TestAnAmountNearTheEndOfTheNumbersPassesNoBudget(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.budgeted(t, 100*cent, 10, limit.Month)
	if _, err := e.spending().SetCaps(t.Context(), c.account, caps(10, 10)); err != nil {
		t.Fatal(err)
	}
	giant, small := e.reservation(t, c, 1), e.reservation(t, c, 10)
	giant.Amount = math.MaxInt64
	for i, v := range e.admit(t, giant, small) {
		if want := []hold.Outcome{hold.KeyBudgetShort, hold.Admitted}[i]; v.Outcome != want {
			t.Errorf("request %d: got %s, want %s", i, v.Outcome, want)
		}
	}
	e.sound(t)
}

func TestVerifyNoticesACounterThatDrifted(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.budgeted(t, 100*cent, 10, limit.Day)
	r := e.reservation(t, c, 2)
	e.admitOne(t, r, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, r, 2))
	e.sound(t)
	for _, sql := range []string{
		`UPDATE spend_counter SET spent = spent - 1`, `UPDATE spend_counter SET spent = spent + 1`,
		`UPDATE spend_counter SET held = 1`, `DELETE FROM spend_counter`,
	} {
		before := scan[string](t, e, `SELECT row_to_json(s)::text FROM spend_counter s`)
		e.exec(t, sql)
		report, err := audit.Run(t.Context(), e.store)
		if err != nil {
			t.Fatal(err)
		}
		if report.Drift == 0 {
			t.Errorf("%s: got no drift, want one", sql)
		}
		e.exec(t, `DELETE FROM spend_counter`)
		e.exec(t, `INSERT INTO spend_counter SELECT * FROM json_populate_record(NULL::spend_counter, $1::json)`, before)
	}
	e.sound(t)
}

// A batch is decided account by account and key by key, in the order in which they were made.
func TestWhatBoundsAKeyBoundsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	second := map[ids.KeyID]hold.Outcome{} // what the second of two requests of a key comes to
	var batch []hold.Reservation
	ask := func(c consumer, outcome hold.Outcome) {
		second[c.key] = outcome
		batch = append(batch, e.reservation(t, c, 1), e.reservation(t, c, 1))
	}
	free := e.consumer(t, money.USD)
	ask(free, hold.Admitted)
	_, budgeted := e.own(t, free.account, key.Settings{Budget: &limit.Budget{Amount: cent, Period: limit.Day}})
	ask(budgeted, hold.KeyBudgetShort)
	_, later := e.own(t, free.account, key.Settings{})
	ask(later, hold.Admitted)
	for outcome, bound := range map[hold.Outcome]func(consumer){
		hold.DayCapShort: func(c consumer) {
			if _, err := e.spending().SetCaps(t.Context(), c.account, caps(1, 50)); err != nil {
				t.Fatal(err)
			}
		},
		hold.CategoryTooManyOpen: func(c consumer) {
			e.agree(t, c, enterprise.Terms{Categories: ofLLM(enterprise.Category{ConcurrentRequests: 1})})
		},
		hold.RateLimited: func(c consumer) { e.agree(t, c, enterprise.Terms{RequestsPerMinute: 1}) },
	} {
		bounded := e.consumer(t, money.USD)
		bound(bounded)
		ask(bounded, outcome)
		ask(e.consumer(t, money.USD), hold.Admitted)
	}
	decided := e.admit(t, batch...)
	for i := 0; i < len(batch); i += 2 { // either of the two may come first
		got := []hold.Outcome{decided[i].Outcome, decided[i+1].Outcome}
		want := []hold.Outcome{hold.Admitted, second[batch[i].Key]}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the key at %d: got %s, want %s", i/2, got, want)
		}
	}
	e.sound(t)
}
