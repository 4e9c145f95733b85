package store_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
)

func TestAdmitHoldsTheAmountAndPinsThePrice(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.reservation(t, c, 30)
	a := e.admitOne(t, reservation, hold.Admitted)
	switch {
	case a.Account != c.account:
		t.Fatalf("admission: a.Account: got %v, want %v", a.Account, c.account)
	case a.Held != 30*cent:
		t.Fatalf("admission: a.Held: got %v, want %v", a.Held, 30*cent)
	case a.Rates != centRates:
		t.Fatalf("admission: a.Rates: got %+v, want %+v", a.Rates, centRates)
	case a.Price != e.price:
		t.Fatalf("admission: a.Price: got %v, want %v", a.Price, e.price)
	case a.Billing != hold.PayAsYouGo:
		t.Fatalf("admission: a.Billing: got %q, want %q", a.Billing, hold.PayAsYouGo)
	}
	if left := time.Until(a.ExpiresAt); left < terms.Lease-time.Minute || left > terms.Lease+time.Minute {
		t.Errorf("expires: got %v, want about %v", left, terms.Lease)
	}
	e.wantWallet(t, c, money.USD, 30*cent)
	e.sound(t)
}

func TestAdmitRepeatedReturnsTheFirstAnswerAndHoldsOnce(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute, limits.Concurrent = 5, 5
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	reservation := e.reservation(t, c, 30)
	first := e.admitOne(t, reservation, hold.Admitted)

	again := reservation
	again.Rates, again.Amount = money.Rates{Input: 1, PayoutInput: 1}, 1 // the price has changed meanwhile
	second := e.admitOne(t, again, hold.Repeated)
	first.Rate.Reset, second.Rate.Reset = 0, 0 // time went by
	if !first.ExpiresAt.Equal(second.ExpiresAt) {
		t.Errorf("expiry moved: got %v, want %v", second.ExpiresAt, first.ExpiresAt)
	}
	first.ExpiresAt, second.ExpiresAt = time.Time{}, time.Time{}
	if first != second {
		t.Errorf("repeat: got %+v, want %+v", second, first)
	}
	e.wantWallet(t, c, money.USD, 30*cent)

	// Twice in one batch is the same.
	twice := e.reservation(t, c, 1)
	got := e.admit(t, twice, twice)
	outcomes := []hold.Outcome{got[0].Outcome, got[1].Outcome}
	slices.Sort(outcomes)
	if !slices.Equal(outcomes, []hold.Outcome{hold.Admitted, hold.Repeated}) {
		t.Errorf("the same request twice in a batch: got %q, want %q", outcomes, []hold.Outcome{hold.Admitted, hold.Repeated})
	}
	e.wantWallet(t, c, money.USD, 31*cent)

	// Another key or model must not get at it.
	other := e.consumer(t, money.USD)
	stolen := reservation
	stolen.Key = other.key
	e.admitOne(t, stolen, hold.Reused)
	e.sound(t)
}

// In one batch, too, a request is one account's, and its repeats are told what
// the first was, whatever the price by then.
func TestARequestTwiceInABatchIsAdmittedOnce(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute = 9
	e := setup(t, limits)
	one, other := e.consumer(t, money.USD), e.consumer(t, money.USD)
	first := e.reservation(t, one, 3)
	dearer, stolen, another := first, first, first
	dearer.Amount, dearer.Rates.Output = 9*cent, 90_000_000_000
	stolen.Key, another.Model = other.key, "acme/other"
	verdicts := e.admit(t, first, e.reservation(t, one, 1), dearer, stolen, another)
	count := map[hold.Outcome]int{}
	for _, v := range verdicts {
		count[v.Outcome]++
	}
	want := map[hold.Outcome]int{hold.Admitted: 2, hold.Repeated: 1, hold.Reused: 2}
	if verdicts[3].Outcome == hold.Admitted { // its account's id is the lower one
		want = map[hold.Outcome]int{hold.Admitted: 2, hold.Reused: 3}
	} else if got := verdicts[2].Admission; got.Held != 3*cent {
		t.Errorf("Held: got %v, want %v", got.Held, 3*cent)
	} else if got.Rate != verdicts[0].Admission.Rate {
		t.Errorf("Rate: got %+v, want %+v", got.Rate, verdicts[0].Admission.Rate)
	} else if got.Rates != centRates {
		t.Errorf("Rates: got %+v, want %+v", got.Rates, centRates)
	}
	if !maps.Equal(count, want) {
		t.Errorf("outcomes: got %v, want %v", count, want)
	}
	e.sound(t)
}

// The server's default may be another: it must not lose what is acknowledged.
func TestWhatIsAcknowledgedIsFlushedWhateverTheServersDefault(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.exec(t, `CREATE TABLE flushed (what text, how text)`)
	e.exec(t, `GRANT INSERT ON flushed TO svc_billing`)
	e.exec(t, `CREATE FUNCTION note_flush() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO flushed VALUES (TG_ARGV[0], current_setting(''synchronous_commit'')); RETURN NULL; END'`)
	for _, table := range []string{"hold", "usage_settlement", "request_report"} {
		// Deferred, so that it sees what holds at the commit.
		e.exec(t, `CREATE CONSTRAINT TRIGGER note AFTER INSERT ON `+table+`
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_flush(`+table+`)`)
	}
	if how := scan[string](t, e, `SHOW synchronous_commit`); how != "off" {
		t.Fatalf(`the server's default: got %q, want "off"`, how)
	}
	reservation := e.reservation(t, c, 1)
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, "settled", e.served(t, reservation, 1))
	e.conclude(t, servedWord(reservation.Request, 1))
	released := e.reservation(t, c, 1)
	e.admitOne(t, released, hold.Admitted)
	e.release(t, released.Request)
	const want = "hold on, request_report on, usage_settlement on"
	got := scan[string](t, e,
		`SELECT string_agg(DISTINCT what || ' ' || how, ', ' ORDER BY what || ' ' || how) FROM flushed`)
	if got != want {
		t.Errorf("at the commits: got %s, want %s", got, want)
	}
}

func TestAdmitNeverExceedsTheCreditUnderParallelCallers(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent) // $0.01
	perRequest := cent / 50
	var admitted atomic.Int64
	var callers sync.WaitGroup
	for range 200 {
		reservation := e.reservation(t, c, 1)
		reservation.Amount = perRequest
		callers.Go(func() {
			if v, err := e.store.Admit(t.Context(), []hold.Reservation{reservation}); err != nil {
				t.Error(err)
			} else if v[0].Outcome == hold.Admitted {
				admitted.Add(int64(perRequest))
			}
		})
	}
	callers.Wait()
	if got := money.NanoUSD(admitted.Load()); got != cent {
		t.Errorf("admitted: got %v, want %v", got, cent)
	}
	e.wantWallet(t, c, cent, cent)
	e.sound(t)
}

func TestAdmitFortyAgainstCreditForThreeAdmitsThree(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 3*cent)
	var admitted atomic.Int64
	var callers sync.WaitGroup
	for range 40 {
		reservation := e.reservation(t, c, 1)
		callers.Go(func() {
			if v, err := e.store.Admit(t.Context(), []hold.Reservation{reservation}); err != nil {
				t.Error(err)
			} else if v[0].Outcome == hold.Admitted {
				admitted.Add(1)
			}
		})
	}
	callers.Wait()
	if admitted.Load() != 3 {
		t.Errorf("got %d admitted, want 3", admitted.Load())
	}
	e.wantWallet(t, c, 3*cent, 3*cent)
	e.sound(t)
}

func TestAdmitRefusesWithoutAnyEffect(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute = 1
	e := setup(t, limits)
	poor := e.consumer(t, 0)
	rich := e.consumer(t, money.USD)
	narrow := e.issue(t, rich.account, key.IssueRequest{Models: []string{"acme/other"}})
	revoked := e.issue(t, rich.account, key.IssueRequest{})
	if err := e.keys.Revoke(t.Context(), revoked.key); err != nil {
		t.Fatal(err)
	}
	expired := e.issue(t, rich.account, key.IssueRequest{ExpiresAt: time.Now().Add(time.Hour)})
	e.exec(t, `UPDATE consumer_key SET expires_at = now() WHERE id = $1`, [16]byte(expired.key))
	frozen := e.consumer(t, money.USD)
	if _, err := e.accounts.SetState(t.Context(), frozen.account, account.Frozen, "test"); err != nil {
		t.Fatal(err)
	}
	nobody := consumer{key: ids.KeyID(request(t))}

	for _, tc := range []struct {
		who  consumer
		want hold.Outcome
	}{
		{poor, hold.CreditShort}, {narrow, hold.ModelNotAllowed}, {revoked, hold.KeyRevoked},
		{expired, hold.KeyExpired}, {frozen, hold.AccountFrozen}, {nobody, hold.InvalidKey},
	} {
		// Twice, so that a first refusal that counted would show as the second.
		e.admitOne(t, e.reservation(t, tc.who, 1), tc.want)
		e.admitOne(t, e.reservation(t, tc.who, 1), tc.want)
	}
	if n := scan[int64](t, e,
		`SELECT (SELECT count(*) FROM hold) + (SELECT count(*) FROM key_rate) + (SELECT sum(n) FROM key_inflight)`); n != 0 {
		t.Errorf("refusals left: got %d, want 0", n)
	}
	e.sound(t)
}

func TestAdmitDecidesEachOfAMixedBatchInItsPlace(t *testing.T) {
	e := setup(t, unlimited)
	var claims []hold.Reservation
	var owners []consumer
	credit := map[consumer]int{}
	for i := range 90 {
		c := e.consumer(t, money.NanoUSD(i%3)*cent)
		credit[c] = i % 3
		for range 2 {
			owners = append(owners, c)
			claims = append(claims, e.reservation(t, c, 1))
		}
	}
	for i, v := range e.admit(t, claims...) {
		if v.Outcome == hold.Admitted {
			credit[owners[i]]--
		}
		if v.Admission.Account != owners[i].account {
			t.Errorf("claim %d was answered for another account: got %v, want %v", i, v.Admission.Account, owners[i].account)
		}
	}
	for c, left := range credit {
		if left != 0 {
			t.Errorf("account %s: cents of credit left: got %d, want 0", c.account, left)
		}
	}
	e.sound(t)
}

func TestRateLimitIsExactUnderParallelCallers(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute, limits.EmbeddingPerMinute = 20, 5
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	began := time.Now()
	var llm, embedding atomic.Int64
	var callers sync.WaitGroup
	for i := range 80 {
		reservation, count := e.reservation(t, c, 0), &llm
		if i%2 == 0 {
			reservation.Class, count = limit.Embedding, &embedding
		}
		callers.Go(func() {
			v, err := e.store.Admit(t.Context(), []hold.Reservation{reservation})
			switch {
			case err != nil:
				t.Error(err)
			case v[0].Outcome == hold.Admitted:
				count.Add(1)
			// A transaction that waited counts from its beginning, before others took theirs.
			case v[0].Outcome != hold.RateLimited || v[0].Admission.Rate.Reset <= 0 || v[0].Admission.Rate.Reset > time.Minute+
				time.Since(began):
				t.Errorf("refused by %+v", v[0])
			}
		})
	}
	callers.Wait()
	took := time.Since(began)
	for class, c := range map[string]struct {
		admitted int64
		limit    int64
	}{"llm": {llm.Load(), 20}, "embedding": {embedding.Load(), 5}} {
		if back := int64(took / (time.Minute / time.Duration(c.limit))); c.admitted < c.limit || c.admitted > c.limit+back {
			t.Errorf("admitted: got %d %s requests in %v, want %d and at most %d more", c.admitted, class, took, c.limit, back)
		}
	}
}

// rest lets so much time pass for rates.
func (e *env) rest(t testing.TB, d time.Duration) {
	t.Helper()
	e.exec(t, `UPDATE key_rate SET full_at = full_at - $1::interval`, d)
	e.exec(t, `UPDATE account_rate SET full_at = full_at - $1::interval`, d)
	e.exec(t, `UPDATE plan_gate SET full_at = full_at - $1::interval`, d)
}

func TestRateLimitTellsWhatRemainsAndGivesItBackEvenly(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute = 2
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	// within reports whether d is long, or shorter by less than 20 s, the most that
	// the test may take.
	within := func(d, long time.Duration) bool { return d <= long && d > long-20*time.Second }
	for i, left := range []int32{1, 0} {
		r := e.admitOne(t, e.reservation(t, c, 0), hold.Admitted).Rate
		switch {
		case r.Limit != 2:
			t.Errorf("rate: r.Limit: got %d, want 2", r.Limit)
		case r.Remaining != left:
			t.Errorf("rate: r.Remaining: got %d, want %d", r.Remaining, left)
		case !within(r.Reset, time.Duration(i+1)*30*time.Second):
			t.Error("rate: within(…): got false, want true")
		}
	}
	switch r := e.admitOne(t, e.reservation(t, c, 0), hold.RateLimited).Rate; {
	case r.Remaining != 0:
		t.Errorf("refused: r.Remaining: got %d, want 0", r.Remaining)
	case !within(r.Retry, 30*time.Second):
		t.Error("refused: within(r.Retry, 30*time.Second): got false, want true")
	case !within(r.Reset, time.Minute):
		t.Error("refused: within(r.Reset, time.Minute): got false, want true")
	}
	e.rest(t, 30*time.Second)
	if r := e.admitOne(t, e.reservation(t, c, 0), hold.Admitted).Rate; r.Remaining != 0 {
		t.Errorf("half a minute later: r.Remaining: got %d, want 0", r.Remaining)
	} else if !within(r.Reset, time.Minute) {
		t.Error("half a minute later: within(r.Reset, time.Minute): got false, want true")
	}
	e.admitOne(t, e.reservation(t, c, 0), hold.RateLimited)
	e.rest(t, time.Hour)
	if r := e.admitOne(t, e.reservation(t, c, 0), hold.Admitted).Rate; r.Remaining != 1 {
		t.Errorf("an hour later: r.Remaining: got %d, want 1", r.Remaining)
	} else if !within(r.Reset, 30*time.Second) {
		t.Error("an hour later: within(r.Reset, 30*time.Second): got false, want true")
	}
	// When the clock is set back a little, the requests that began by the later clock
	// still count. When it is set back by months, nobody waits for months.
	e.rest(t, -time.Minute)
	e.admitOne(t, e.reservation(t, c, 0), hold.RateLimited)
	e.rest(t, -90*24*time.Hour)
	e.admitOne(t, e.reservation(t, c, 0), hold.Admitted)
}

// TestNoSpanOfTimeSeesMoreThanItsRateAllows races two replicas while the clock
// moves on, and looks at every span between two admissions.
func TestNoSpanOfTimeSeesMoreThanItsRateAllows(t *testing.T) {
	const perMinute, every = 7, 8_571_429 * time.Microsecond // a seventh of a minute, rounded up
	limits := unlimited
	limits.LLMPerMinute, limits.ZeroPricedPerMinute = perMinute, perMinute
	e := setup(t, limits)
	clock := newDatabaseClock(t, e)
	var replicas []*store.Store
	for _, pool := range e.pools(t, 2, map[string]string{"search_path": clock.searchPath}) {
		replicas = append(replicas, store.New(pool, limits, terms))
	}
	c := e.consumer(t, money.USD)
	start := time.Now().Truncate(time.Microsecond)
	var now time.Duration
	var admitted []time.Duration
	var full time.Duration // when all of the limit is back
	for step := range 60 {
		clock.set(t, start.Add(now))
		var callers sync.WaitGroup
		var begun atomic.Int64
		for i := range 12 {
			reservation := e.reservation(t, c, 0)
			if step%2 == 0 {
				reservation = e.free(t, c)
			}
			callers.Go(func() {
				v, err := replicas[i%2].Admit(t.Context(), []hold.Reservation{reservation})
				switch {
				case err != nil:
					t.Error(err)
				case v[0].Outcome == hold.Admitted:
					begun.Add(1)
				case v[0].Outcome != hold.RateLimited || v[0].Admission.Rate.Retry <= 0 || v[0].Admission.Rate.Retry > every:
					t.Errorf("refused by %+v", v[0])
				}
			})
		}
		callers.Wait()
		for range begun.Load() {
			admitted = append(admitted, now)
		}
		// All callers ask for more than there is, so nothing is left over either.
		want := int64(0)
		for ; full-now <= (perMinute-1)*every; want++ {
			full = max(full, now) + every
		}
		if begun.Load() != want {
			t.Fatalf("step %d: got %d admitted, want %d", step, begun.Load(), want)
		}
		now += []time.Duration{every - time.Microsecond, time.Microsecond, 2 * every, time.Minute, 3 * time.Second}[step%5]
	}
	for i, first := range admitted {
		for j, last := range admitted[i:] {
			if n := j + 1; n > perMinute+int((last-first)/every) {
				t.Fatalf("admitted within %v: got %d, want at most %d", last-first, n, perMinute+int((last-first)/every))
			}
		}
	}
}

func TestZeroPricedModelsShareARateAndCountInTheirCategory(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute, limits.ZeroPricedPerMinute = 4, 2
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	e.admitOne(t, e.free(t, c), hold.Admitted)
	vision := e.free(t, c)
	vision.Class = limit.Multimodal
	e.admitOne(t, vision, hold.Admitted)
	if r := e.admitOne(t, e.free(t, c), hold.RateLimited).Rate; r.Limit != 2 {
		t.Errorf("refused by a limit: got %d, want 2", r.Limit)
	}
	if r := e.admitOne(t, e.reservation(t, c, 1), hold.Admitted).Rate; r.Limit != 4 {
		t.Errorf("rate: r.Limit: got %d, want 4", r.Limit)
	} else if r.Remaining != 2 {
		t.Errorf("rate: r.Remaining: got %d, want 2", r.Remaining)
	}
}

func TestAccountLimitsReplaceTheDefaults(t *testing.T) {
	limits := unlimited
	limits.LLMPerMinute, limits.ZeroPricedPerMinute, limits.Concurrent = 1, 1, 1
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	set := func(l limit.Limits) {
		t.Helper()
		if _, err := e.accounts.SetLimits(t.Context(), c.account, l); err != nil {
			t.Fatal(err)
		}
	}
	set(limit.Limits{RequestsPerMinute: 3, ConcurrentRequests: 2})
	e.admitOne(t, e.reservation(t, c, 0), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 0), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 0), hold.TooManyOpen)
	set(limit.Limits{RequestsPerMinute: 3, ConcurrentRequests: limit.Unlimited})
	e.admitOne(t, e.reservation(t, c, 0), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 0), hold.RateLimited)
	set(limit.Limits{RequestsPerMinute: limit.Unlimited, ConcurrentRequests: limit.Unlimited})
	for range 5 {
		if r := e.admitOne(t, e.free(t, c), hold.Admitted).Rate; r.Limit != 0 {
			t.Errorf("unlimited says a limit: got %d, want 0", r.Limit)
		}
	}
	set(limit.Limits{RequestsPerMinute: 0, ConcurrentRequests: limit.Unlimited})
	e.admitOne(t, e.free(t, c), hold.RateLimited)
}

func TestConcurrencyIsExactAndFreedByEveryEnd(t *testing.T) {
	limits := unlimited
	limits.Concurrent = 8
	e := setup(t, limits)
	c := e.consumer(t, money.USD)
	var mu sync.Mutex
	var open []hold.Reservation
	var callers sync.WaitGroup
	for range 100 {
		reservation := e.reservation(t, c, 1)
		callers.Go(func() {
			v, err := e.store.Admit(t.Context(), []hold.Reservation{reservation})
			if err != nil {
				t.Error(err)
				return
			}
			if v[0].Outcome == hold.Admitted {
				mu.Lock()
				defer mu.Unlock()
				open = append(open, reservation)
			}
		})
	}
	callers.Wait()
	if len(open) != 8 {
		t.Fatalf("got %d open at once, want 8", len(open))
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.TooManyOpen)

	e.settle(t, "settled", e.served(t, open[0], 1))
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 1), hold.TooManyOpen)
	e.release(t, open[1].Request)
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 1), hold.TooManyOpen)
	e.overdue(t)
	if n, err := e.store.ExpireHolds(t.Context(), ever, 100); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if n != 8 {
		t.Fatalf("expired: got %d, want 8", n)
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
	e.sound(t)
}

func TestUnlimitedConcurrencyStaysWithinTheCounter(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	e.exec(t, `UPDATE key_inflight SET n = 999999`)
	e.admitOne(t, e.reservation(t, c, 0), hold.Admitted)
	e.admitOne(t, e.reservation(t, c, 0), hold.TooManyOpen)
}

func TestALostConnectionIsUnavailableAndTheRepeatSucceeds(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	lost := 0
	for range 20 {
		reservation := e.reservation(t, c, 1)
		e.exec(t, `SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		for {
			v, err := e.store.Admit(t.Context(), []hold.Reservation{reservation})
			if err == nil {
				if o := v[0].Outcome; o != hold.Admitted && o != hold.Repeated {
					t.Errorf("outcome %s", o)
				}
				break
			}
			if lost++; !fault.Is(err, fault.AdmissionUnavailable) {
				t.Fatalf("got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
			} else if lost > 200 {
				t.Fatalf("lost: got %d, want at most 200", lost)
			}
		}
	}
	if lost == 0 {
		t.Error("no connection was lost, so nothing was shown")
	}
	e.wantWallet(t, c, money.USD, 20*cent)
	e.sound(t)
}
