package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// pools are so many to the database of the test.
func (e *env) pools(t testing.TB, n int, settings map[string]string) []*pgxpool.Pool {
	t.Helper()
	all := make([]*pgxpool.Pool, n)
	for i := range all {
		cfg := e.pool.Config()
		cfg.MaxConns = 6
		for name, value := range settings {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		all[i] = pool
	}
	return all
}

// replicas are so many of the service on one database, each with its own
// connections.
func (e *env) replicas(t testing.TB, n int, settings map[string]string) []*store.Store {
	t.Helper()
	var all []*store.Store
	for _, pool := range e.pools(t, n, settings) {
		all = append(all, store.New(pool, unlimited, terms))
	}
	return all
}

// Hostile test 45.
func TestTwoHundredParallelRequestsOnACentNeverOverspend(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent)
	replicas := e.replicas(t, 3, nil)
	const perRequest = cent / 50
	var callers sync.WaitGroup
	var settled, short, admitted atomic.Int64
	for i := range 200 {
		reservation := e.reservation(t, c, 1)
		reservation.Amount = perRequest
		st := replicas[i%len(replicas)]
		callers.Go(func() {
			v, err := st.Admit(t.Context(), []hold.Reservation{reservation})
			if err != nil || v[0].Outcome != hold.Admitted {
				if err != nil {
					t.Error(err)
				}
				return
			}
			admitted.Add(1)
			switch i % 4 {
			case 0: // Costs five hundred times what was held for it.
				_, err = (&usage.Settler{Store: st}).Settle(t.Context(), []usage.Delivery{e.served(t, reservation, 1)},
					func(lines []usage.Line) {
						settled.Add(int64(lines[0].Charged))
						short.Add(int64(lines[0].Shortfall))
					})
			case 1:
				_, _, err = st.Conclude(t.Context(), []hold.RequestReport{{Request: reservation.Request, Outcome: "failed",
					Attempts: []hold.Attempt{}}})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	posted, held := e.wallet(t, c)
	t.Logf("%d of 200 are admitted, %s charged, %s short, %s still held", admitted.Load(), money.NanoUSD(settled.Load()),
		money.NanoUSD(short.Load()), held)
	switch {
	case posted < 0:
		t.Errorf("posted: got %v, want at least 0", posted)
	case held > posted:
		t.Errorf("held: got %v, want at most %v", held, posted)
	case posted+money.NanoUSD(settled.Load()) != cent:
		t.Errorf("posted+money.NanoUSD(settled.Load()): got %v, want %v", posted+money.NanoUSD(settled.Load()), cent)
	}
	e.sound(t)
}

// Hostile test 46. A caller that is killed has told nobody how its request
// ended; its place is free again when the lease is over.
func TestAHundredParallelCallersOnThreeReplicasNeverHaveMoreThanEightOfAPlan(t *testing.T) {
	e := setup(t, unlimited)
	c := e.subscriber(t, 0, limits{requests: 1_000_000, tokens: 1_000_000_000, rate: 1_000_000, concurrent: 8})
	// The ninth is an error, however short it is there.
	if _, err := e.owner.Exec(t.Context(), `ALTER TABLE plan_gate ADD CONSTRAINT eight CHECK (open <= 8)`); err != nil {
		t.Fatal(err)
	}
	short := terms
	short.Lease = 5 * time.Millisecond
	var replicas []*store.Store
	for _, pool := range e.pools(t, 3, nil) {
		replicas = append(replicas, store.New(pool, unlimited, short))
	}
	const kills = 1000
	var callers sync.WaitGroup
	var killed, admitted atomic.Int64
	for i := range 100 {
		st, r := replicas[i%len(replicas)], rand.New(rand.NewPCG(uint64(i), 46))
		callers.Go(func() {
			for killed.Load() < kills {
				reservation := e.standard(t, c, 1)
				v, err := st.Admit(t.Context(), []hold.Reservation{reservation})
				switch {
				case err != nil:
				case v[0].Outcome == hold.PlanTooManyOpen && r.IntN(4) > 0:
				case v[0].Outcome == hold.PlanTooManyOpen:
					_, err = st.ExpireHolds(t.Context(), ever, 100)
				case v[0].Outcome != hold.Admitted || v[0].Admission.Billing != hold.Plan:
					t.Errorf("%+v", v[0])
				default:
					admitted.Add(1)
					switch r.IntN(4) {
					case 0:
						_, _, err = st.Conclude(t.Context(), []hold.RequestReport{servedWord(reservation.Request, 1)})
					case 1:
						_, err = (&usage.Settler{Store: st}).Settle(t.Context(), []usage.Delivery{e.served(t, reservation, 1)}, nil)
					default:
						killed.Add(1)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d admitted, %d killed", admitted.Load(), killed.Load())
	e.sound(t)
}

// A thousand callers by way of the group commit of three replicas: at the end
// every bound is met exactly, and none is passed.
func TestAThousandCallersOnThreeReplicasMeetEveryBoundExactly(t *testing.T) {
	e := setup(t, unlimited)
	planned := e.subscriber(t, 0, limits{requests: 1000, tokens: 20, rate: 1000, concurrent: 8})
	rich, poor := e.consumer(t, money.USD), e.consumer(t, 7*cent)
	e.exec(t, `INSERT INTO account_limits VALUES ($1, 11, -1)`, [16]byte(rich.account))
	var admitters []*hold.Admitter
	// It stands still, so that no rate gives anything back.
	clock := newDatabaseClock(t, e)
	for _, st := range e.replicas(t, 3, map[string]string{"search_path": clock.searchPath}) {
		a, stop := admitterOn(t, st, e.price, 2)
		defer stop()
		admitters = append(admitters, a)
	}
	var admitted [3]atomic.Int64
	var callers sync.WaitGroup
	for i := range 1000 {
		who := i % 3
		order := hold.AdmitRequest{Request: request(t), Key: []consumer{planned, rich, poor}[who].key, Model: "acme/large",
			MaxCompletionTokens: 1}
		callers.Go(func() {
			_, err := admitters[i/3%3].Admit(t.Context(), order)
			switch {
			case err == nil:
				admitted[who].Add(1)
			case !fault.Is(err, fault.ConcurrencyLimitExceeded) && !fault.Is(err, fault.RateLimitExceeded) &&
				!fault.Is(err, fault.InsufficientCredits):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	for who, want := range []int64{8, 11, 7} {
		if n := admitted[who].Load(); n != want {
			t.Errorf("caller %d: got %d admitted, want %d", who, n, want)
		}
	}
	e.sound(t)
}

// Hostile test 47. The clock of the database alone says which day it is, neither
// the time in the request's id nor the time zone of a session.
func TestEachRequestIsInExactlyOneDayWeekAndMonth(t *testing.T) {
	e := setup(t, unlimited)
	clock := newDatabaseClock(t, e)
	c := e.subscriber(t, 0, roomy)
	var all []hold.Reservation
	for _, zone := range []string{"UTC", "America/New_York", "Pacific/Kiritimati", "Australia/Lord_Howe"} {
		replicas := e.replicas(t, 2, map[string]string{"search_path": clock.searchPath, "timezone": zone})
		for _, boundary := range []string{
			"2027-01-01", // a year that begins within an ISO week
			"2027-01-04", // an ISO week
			"2027-03-14", // clocks go forward in New York
			"2027-11-01", // a month and a week
		} {
			midnight, err := time.Parse(time.DateOnly, boundary)
			if err != nil {
				t.Fatal(err)
			}
			clock.set(t, midnight.Add(-time.Millisecond))
			var callers sync.WaitGroup
			for i := range 20 {
				if i == 1 {
					callers.Wait()
				}
				reservation := e.standard(t, c, 1)
				// The gateway's clock may be two days off.
				reservation.Request = requestAt(t, midnight.Add(time.Duration(i-10)*4*time.Hour))
				all = append(all, reservation)
				callers.Go(func() {
					v, err := replicas[i%2].Admit(t.Context(), []hold.Reservation{reservation})
					if err != nil {
						t.Errorf("got the error %v, want none", err)
					} else if v[0].Admission.Billing != hold.Plan {
						t.Errorf("v[0].Admission.Billing: got %q, want %q", v[0].Admission.Billing, hold.Plan)
					}
				})
				if i == 9 {
					callers.Go(func() { clock.set(t, midnight) })
				}
			}
			callers.Wait()
		}
	}
	days := scan[string](t, e, `SELECT string_agg(DISTINCT plan_day::text, ' ' ORDER BY plan_day::text) FROM hold`)
	t.Logf("days %s", days)
	for _, period := range []string{"day", "week", "month"} {
		kind := map[string]string{"day": "requests", "week": "tokens", "month": "list_price"}[period]
		per := map[string]int64{"day": 1, "week": 1, "month": int64(cent)}[period]
		sum := scan[int64](t, e, `SELECT sum(used)::bigint FROM plan_counter WHERE kind = $1 AND period = $2`, kind, period)
		if sum != int64(len(all))*per {
			t.Errorf("got %d counted by %s, want %d", sum, period, int64(len(all))*per)
		}
	}
	if n := scan[int64](t, e,
		`SELECT count(*) FROM hold WHERE plan_day NOT IN ('2026-12-31', '2027-01-01', '2027-01-03', '2027-01-04',
		'2027-03-13', '2027-03-14', '2027-10-31', '2027-11-01')`); n != 0 {
		t.Errorf("requests on a day that it never was: got %d, want 0", n)
	}
	e.sound(t)
	// They are settled when the days are long over.
	for _, reservation := range all {
		e.settle(t, usage.Settled, e.served(t, reservation, 0))
	}
	if left := scan[int64](t, e, `SELECT sum(used)::bigint FROM plan_counter WHERE kind <> 'requests'`); left != 0 {
		t.Errorf("units left: got %d, want 0", left)
	}
	e.sound(t)
}

// databaseClock stands in for now() in sessions that have its search path.
type databaseClock struct {
	e          *env
	searchPath string
}

func newDatabaseClock(t testing.TB, e *env) *databaseClock {
	t.Helper()
	for _, sql := range []string{
		`CREATE SCHEMA clock`,
		`CREATE TABLE clock.clock (at timestamptz)`,
		`INSERT INTO clock.clock VALUES (now())`,
		`CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM clock.clock'`,
		`GRANT USAGE ON SCHEMA clock TO svc_billing`,
		`GRANT SELECT ON clock.clock TO svc_billing`,
	} {
		if _, err := e.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return &databaseClock{e: e, searchPath: "clock, pg_catalog, " + store.Schema}
}

func (c *databaseClock) set(t testing.TB, at time.Time) {
	t.Helper()
	if _, err := c.e.owner.Exec(t.Context(), `UPDATE clock.clock SET at = $1`, at); err != nil {
		t.Error(err)
	}
}

// Hostile test 50.
func TestSettleExpireReleaseAndRefundRaceToOneEndAThousandTimes(t *testing.T) {
	e := setup(t, unlimited)
	c := e.onPlan(t, e.consumer(t, 100*money.USD), roomy)
	replicas := e.replicas(t, 3, nil)
	const rounds, each = 20, 50
	var refunded atomic.Int64
	for range rounds {
		claims := make([]hold.Reservation, each)
		for i := range claims {
			claims[i] = e.reservation(t, c, 1)
			claims[i].Tier = plan.Tier(i % 4)
		}
		e.admit(t, claims...)
		e.overdue(t)
		var racers sync.WaitGroup
		for i := 0; i < each; i += 10 {
			part, one, other := claims[i:i+10], replicas[i/10%3], replicas[(i/10+1)%3]
			racers.Go(func() {
				var batch []usage.Delivery
				for _, reservation := range part {
					d := e.served(t, reservation, 1)
					batch = append(batch, d, d)
				}
				if _, err := (&usage.Settler{Store: one}).Settle(t.Context(), batch, nil); err != nil {
					t.Error(err)
				}
			})
			racers.Go(func() {
				var told []hold.RequestReport
				for _, reservation := range part {
					told = append(told, hold.RequestReport{Request: reservation.Request, Outcome: "failed",
						Attempts: []hold.Attempt{}})
				}
				if _, _, err := other.Conclude(t.Context(), told); err != nil {
					t.Error(err)
				}
			})
			racers.Go(func() {
				if _, err := one.ExpireHolds(t.Context(), ever, 7); err != nil {
					t.Error(err)
				}
			})
			for cause, st := range map[usage.RefundCause]*store.Store{usage.ProviderFault: one, usage.Goodwill: other} {
				racers.Go(func() {
					for _, reservation := range part {
						switch _, err := st.Refund(t.Context(), entryID(t), reservation.Request, cause, ""); {
						case err == nil:
							refunded.Add(1)
						case !errors.Is(err, usage.ErrNothingCharged) && !errors.Is(err, usage.ErrRefunded):
							t.Error(err)
						}
					}
				})
			}
		}
		racers.Wait()
	}
	t.Logf("ended as %s; %d refunded", scan[string](t, e, `SELECT string_agg(state || ' ' || n, ', ' ORDER BY state)
		FROM (SELECT state, count(*) AS n FROM hold GROUP BY state) s`), refunded.Load())
	if lines := scan[int64](t, e, `SELECT count(*) FROM usage_settlement`); lines != rounds*each {
		t.Errorf("served requests that have a line: got %d, want %d", lines, rounds*each)
	}
	if open := scan[int64](t, e, `SELECT count(*) FROM hold WHERE state = 'open'`); open != 0 {
		t.Errorf("holds open: got %d, want 0", open)
	}
	if posted, held := e.wallet(t, c); held != 0 || posted > 100*money.USD {
		t.Errorf("%s posted and %s held", posted, held)
	}
	e.sound(t)
}

// admitterOn runs an admitter on a store until stop is called.
func admitterOn(
	t testing.TB, st *store.Store, version ids.PriceVersionID, writers int,
) (a *hold.Admitter, stop func()) {
	t.Helper()
	a = hold.NewAdmitter(hold.Config{Batch: 256, Queue: 4096, Writers: writers, Timeout: 90 * time.Second},
		hold.Deps{Prices: pricesOf(version), Store: st, Observe: func(hold.Outcome, int) {}})
	return a, runAdmitter(t, a)
}

func runAdmitter(t testing.TB, a *hold.Admitter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var run sync.WaitGroup
	run.Go(func() { a.Run(ctx) })
	for !a.Running() {
		<-time.After(time.Millisecond)
	}
	return func() {
		cancel()
		run.Wait()
	}
}
