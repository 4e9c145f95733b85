package store_test

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/playground"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// guests are visitors at a replica, with a budget of a day.
func (e *env) guests(st *store.Store, budget money.NanoUSD) *playground.Visitors {
	return &playground.Visitors{
		Store: st, Visits: &limit.Visitors{Store: st, Calls: limit.NewSemaphore(4)},
		Openings: &limit.Visitors{Store: st, Calls: limit.NewSemaphore(4)}, Accounts: e.accounts, Keys: e.keys,
		Clock: clock.System, Random: rand.Reader, Budget: budget,
	}
}

// visit opens a session in a network of its own and takes a visit.
func visit(t testing.TB, v *playground.Visitors) (playground.Payer, error) {
	t.Helper()
	var network limit.Address
	_, _ = rand.Read(network[:])
	asked := limit.Visit{Address: network, Limit: 5, Window: time.Hour}
	s := playground.Session{Network: network, Secret: playground.Secret{1, network[0], network[1], network[2]}}
	if _, _, err := v.Open(t.Context(), s, asked); err != nil {
		return playground.Payer{}, err
	}
	payer, _, err := v.Visit(t.Context(), s.Secret, asked, limit.Address{})
	return payer, err
}

// host is who pays for visitors, as a consumer.
func host(t testing.TB, v *playground.Visitors) consumer {
	t.Helper()
	payer, err := visit(t, v)
	if err != nil {
		t.Fatal(err)
	}
	return consumer{account: payer.Account, key: payer.Key}
}

func TestRacingVisitorsOpenOneAccountAndFundItOnce(t *testing.T) {
	e := setup(t, unlimited)
	replicas := e.replicas(t, 2, nil)
	var payers sync.Map
	var racers sync.WaitGroup
	for i := range 20 {
		racers.Go(func() {
			payer, err := visit(t, e.guests(replicas[i%2], 10*money.USD))
			if err != nil {
				t.Errorf("visit: got the error %v, want none", err)
			}
			payers.Store(payer, true)
		})
	}
	racers.Wait()
	n := 0
	payers.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("payers: got %d, want 1", n)
	}
	for what, sql := range map[string]string{
		"accounts": `SELECT count(*) FROM playground_account`,
		"entries":  `SELECT count(*) FROM entry WHERE kind = 'playground'`,
		"keys":     `SELECT count(*) FROM consumer_key`,
	} {
		if got := scan[int](t, e, sql); got != 1 {
			t.Errorf("%s: got %d, want 1", what, got)
		}
	}
	e.wantWallet(t, host(t, e.guests(e.store, 10*money.USD)), 10*money.USD, 0)
	cost := scan[int64](t, e, `SELECT sum(amount) FROM posting WHERE account_kind = 'e:playground'`)
	if want := -10 * int64(usd); cost != want {
		t.Errorf("e:playground: got %d, want %d", cost, want)
	}
	e.sound(t)
}

// However many race for the last of the budget, no more is held than the budget.
func TestRacingChatsDoNotPassTheBudgetOfTheDay(t *testing.T) {
	e := setup(t, unlimited)
	replicas := e.replicas(t, 2, nil)
	v := e.guests(e.store, money.USD)
	payer := host(t, v)
	var admitted, refused atomic.Int64
	var racers sync.WaitGroup
	for i := range 15 {
		reservation := e.reservation(t, payer, 10) // ten cents
		racers.Go(func() {
			decided, err := replicas[i%2].Admit(t.Context(), []hold.Reservation{reservation})
			switch {
			case err != nil:
				t.Errorf("admit: got the error %v, want none", err)
			case decided[0].Outcome == hold.Admitted:
				admitted.Add(1)
			case decided[0].Outcome == hold.DayCapShort && !decided[0].ResetsAt.IsZero():
				refused.Add(1)
			default:
				t.Errorf("admit: got %s, want %s or %s", decided[0].Outcome, hold.Admitted, hold.DayCapShort)
			}
		})
	}
	racers.Wait()
	if got := admitted.Load(); got != 10 {
		t.Errorf("admitted: got %d, want 10", got)
	}
	if got := refused.Load(); got != 5 {
		t.Errorf("refused: got %d, want 5", got)
	}
	_, err := visit(t, v)
	f, _ := fault.As(err)
	switch midnight := time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)); {
	case f == nil:
		t.Fatalf("another visit: got the error %v, want a fault", err)
	case f.Reason != fault.RateLimitExceeded:
		t.Errorf("another visit: f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	case f.Meta[hold.LimitName] != playground.BudgetName:
		t.Errorf("another visit: got the limit %q, want %q", f.Meta[hold.LimitName], playground.BudgetName)
	case (f.RetryAfter - midnight).Abs() > time.Minute:
		t.Errorf("another visit: f.RetryAfter: got %v, want %v", f.RetryAfter, midnight)
	}
	if n := scan[int](t, e, `SELECT sum(cardinality(taken_at)) FROM visitor`); n != 1 {
		t.Errorf("visits taken: got %d, want 1: the refused one counts for nobody", n)
	}
	e.sound(t)
}

// A chat that the rest of the budget cannot pay must not cost its visitor one of the hour's.
func TestANearlySpentBudgetTakesNoVisit(t *testing.T) {
	e := setup(t, unlimited)
	v := e.guests(e.store, money.USD)
	payer := host(t, v)
	e.admitOne(t, e.reservation(t, payer, 98), hold.Admitted)
	if _, err := visit(t, v); err != nil {
		t.Errorf("with two cents left: got the error %v, want none", err)
	}
	e.admitOne(t, e.reservation(t, payer, 1), hold.Admitted)
	_, err := visit(t, v)
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("with one cent left: got the error %v, want a fault", err)
	}
	if got := f.Meta[hold.LimitName]; got != playground.BudgetName {
		t.Errorf("with one cent left: got the limit %q, want %q", got, playground.BudgetName)
	}
	if n := scan[int](t, e, `SELECT sum(cardinality(taken_at)) FROM visitor`); n != 2 {
		t.Errorf("visits taken: got %d, want 2: the refused one counts for nobody", n)
	}
	e.sound(t)
}

func TestTheBudgetMayBeChangedWithinADay(t *testing.T) {
	e := setup(t, unlimited)
	payer := host(t, e.guests(e.store, money.USD))
	spent := e.reservation(t, payer, 40)
	e.admitOne(t, spent, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, spent, 40))
	host(t, e.guests(e.store, 3*money.USD))
	e.wantWallet(t, payer, 3*usd-40*cent, 0)
	e.admitOne(t, e.reservation(t, payer, 261), hold.DayCapShort)
	host(t, e.guests(e.store, money.USD))
	e.wantWallet(t, payer, 3*usd-40*cent, 0)
	e.admitOne(t, e.reservation(t, payer, 61), hold.DayCapShort)
	e.admitOne(t, e.reservation(t, payer, 60), hold.Admitted)
	e.sound(t)
}

func TestEachDayIsGivenWhatItLacks(t *testing.T) {
	e := setup(t, unlimited)
	v := e.guests(e.store, money.USD)
	payer := host(t, v)
	spent := e.reservation(t, payer, 40)
	e.admitOne(t, spent, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, spent, 40))
	e.wantWallet(t, payer, 60*cent, 0)
	// As if all of that had been yesterday.
	e.exec(t, `UPDATE playground_day SET day = day - 1`)
	e.exec(t, `UPDATE spend_counter SET window_start = window_start - 1`)
	e.exec(t, `UPDATE hold SET spend_day = spend_day - 1`)
	host(t, v)
	e.wantWallet(t, payer, usd, 0)
	e.admitOne(t, e.reservation(t, payer, 100), hold.Admitted)
	e.sound(t)
}

// The account that pays has none of the limits by which consumers are bound.
func TestWhoPaysForVisitorsHasNoLimitsOfAConsumer(t *testing.T) {
	e := setup(t, limit.Defaults{LLMPerMinute: 1, MultimodalPerMinute: 1, EmbeddingPerMinute: 1, ZeroPricedPerMinute: 1,
		ImagePerMinute: 1, AudioPerMinute: 1, Concurrent: 1})
	payer := host(t, e.guests(e.store, money.USD))
	var left []hold.RequestReport
	for range 40 {
		reservation := e.free(t, payer)
		e.admitOne(t, reservation, hold.Admitted)
		left = append(left, hold.RequestReport{Request: reservation.Request, Outcome: "client_gone", HTTPStatus: 499,
			TotalMS: 10, ReceivedAt: time.Now(), Attempts: []hold.Attempt{{Attempt: 1, Result: "client_gone", LatencyMS: 5}}})
	}
	if _, _, err := e.store.Conclude(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	e.admitOne(t, e.free(t, payer), hold.Admitted)
	e.admitOne(t, e.reservation(t, payer, 1), hold.Admitted)
	e.admitOne(t, e.reservation(t, payer, 1), hold.Admitted)
	e.sound(t)
}

func TestARevokedKeyOfThePlaygroundIsReplaced(t *testing.T) {
	e := setup(t, unlimited)
	v := e.guests(e.store, money.USD)
	first := host(t, v)
	if err := e.keys.Revoke(t.Context(), first.key); err != nil {
		t.Fatal(err)
	}
	second := host(t, v)
	switch {
	case second.account != first.account:
		t.Errorf("second.account: got %s, want %s", second.account, first.account)
	case second.key == first.key:
		t.Error("second.key: got the revoked one, want another")
	}
	e.admitOne(t, e.reservation(t, second, 1), hold.Admitted)
}

func TestWithoutABudgetThePlaygroundIsSwitchedOff(t *testing.T) {
	e := setup(t, unlimited)
	if _, err := visit(t, e.guests(e.store, 0)); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM visitor_session`); n != 0 {
		t.Errorf("sessions: got %d, want 0", n)
	}
}

// A holder of many networks cannot spend the budget of a day, and one network cannot use up what its neighbours have.
func TestTheNetworksOfAWiderOneHaveTheVisitsOfSixteen(t *testing.T) {
	e := setup(t, unlimited)
	v := e.guests(e.store, 10*money.USD)
	ask := func(network byte, wider limit.Address) (limit.VisitsLeft, error) {
		s := session(network)
		asked := limit.Visit{Address: s.Network, Limit: 1, Window: time.Hour}
		if _, _, err := v.Open(t.Context(), s, asked); err != nil {
			t.Fatal(err)
		}
		_, left, err := v.Visit(t.Context(), s.Secret, asked, wider)
		return left, err
	}
	for n := range byte(playground.WiderNetworks) {
		if _, err := ask(n+1, limit.Address{0xaa}); err != nil {
			t.Fatalf("network %d: got the error %v, want none", n+1, err)
		}
	}
	_, err := ask(100, limit.Address{0xaa})
	switch f, _ := fault.As(err); {
	case f == nil:
		t.Fatalf("one network more: got the error %v, want a fault", err)
	case f.Reason != fault.RateLimitExceeded:
		t.Errorf("one network more: f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	case f.Meta[playground.WiderName] == "":
		t.Errorf("one network more: f.Meta: got %v, want %q in it", f.Meta, playground.WiderName)
	case f.RetryAfter > time.Hour:
		t.Errorf("one network more: f.RetryAfter: got %v, want an hour at most", f.RetryAfter)
	}
	if _, err := ask(101, limit.Address{0xbb}); err != nil {
		t.Errorf("another holder: got the error %v, want none", err)
	}
	if _, err := ask(102, limit.Address{}); err != nil {
		t.Errorf("no wider network: got the error %v, want none", err)
	}
}
