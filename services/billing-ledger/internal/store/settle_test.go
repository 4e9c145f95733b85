package store_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestSettleChargesOnceHoweverOftenItIsDelivered(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	var batch []usage.Delivery
	for range 20 {
		reservation := e.reservation(t, c, 3)
		e.admitOne(t, reservation, hold.Admitted)
		batch = append(batch, e.served(t, reservation, 2))
	}
	rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	e.settle(t, usage.Settled, batch[:10]...)
	e.settle(t, usage.Duplicate, batch[:10]...)
	results, err := e.settler.Settle(t.Context(), append(batch[5:15:15], batch[10:]...), nil)
	if err != nil {
		t.Fatal(err)
	}
	settled := 0
	for _, r := range results {
		if r == usage.Settled {
			settled++
		}
	}
	if settled != 10 {
		t.Errorf("%d settled of 10 new ones: %v: got %d, want 10", settled, results, settled)
	}
	e.wantWallet(t, c, money.USD-40*cent, 0)
	if n := scan[int64](t, e, `SELECT count(*) FROM quarantine`); n != 0 {
		t.Errorf("in quarantine: got %d, want 0", n)
	}
	e.sound(t)
}

func TestAlteredEventIsQuarantinedWithoutEffect(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.reservation(t, c, 10)
	e.admitOne(t, reservation, hold.Admitted)
	d := e.served(t, reservation, 2)
	e.settle(t, usage.Settled, d)
	d.Event.Billable.Completion = 9
	d.Payload = []byte("altered")
	e.settle(t, usage.Altered, d)
	e.settle(t, usage.Altered, d)
	e.wantWallet(t, c, money.USD-2*cent, 0)
	if n := scan[int64](t, e, `SELECT count(*) FROM quarantine WHERE reason = 'altered' AND request_id = $1`,
		[16]byte(reservation.Request)); n != 1 {
		t.Errorf("got %d in quarantine, want 1", n)
	}
	e.sound(t)
}

func TestRedeliveryAfterThreeDaysMeetsTheSameRow(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	// Made three days ago, settled today, delivered again: the day is that of
	// the id, whatever the day of settling.
	reservation := e.reservation(t, c, 5)
	reservation.Request = requestAt(t, time.Now().Add(-72*time.Hour))
	e.admitOne(t, reservation, hold.Admitted)
	d := e.served(t, reservation, 5)
	e.settle(t, usage.Settled, d)
	e.settle(t, usage.Duplicate, d)
	want := reservation.Request.Day().Format(time.DateOnly)
	if got := scan[string](t, e, `SELECT day::text FROM usage_settlement`); got != want {
		t.Errorf("settled under: got %s, want %s", got, want)
	}
	if table := scan[string](t, e,
		`SELECT tableoid::regclass::text FROM usage_settlement`); table == "usage_settlement_default" {
		t.Error(`settled: got "usage_settlement_default", want any but "usage_settlement_default"`)
	}
	e.wantWallet(t, c, money.USD-5*cent, 0)
	e.sound(t)
}

func TestDaysWithoutPartitionGoToTheDefaultOne(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.reservation(t, c, 5)
	reservation.Request = requestAt(t, time.Now().Add(60*24*time.Hour))
	e.admitOne(t, reservation, hold.Admitted)
	d := e.served(t, reservation, 5)
	e.settle(t, usage.Settled, d)
	e.settle(t, usage.Duplicate, d)
	if n := scan[int64](t, e, `SELECT count(*) FROM usage_settlement_default`); n != 1 {
		t.Errorf("got %d rows in the default partition, want 1", n)
	}
	e.sound(t)
}

func TestPartitionsAreMadeOnce(t *testing.T) {
	e := setup(t, unlimited) // made 3 days back and 1 ahead
	made, err := e.store.EnsurePartitions(t.Context(), 3, 3)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if made != 2 {
		t.Errorf("made: got %d, want 2", made)
	}
	if _, err := e.store.EnsurePartitions(t.Context(), 7, 32); err == nil {
		t.Error("a span of 32 days is accepted")
	}
}

func TestSettleTakesWhatTheHoldMissesFromAvailable(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 10*cent)
	reservation := e.reservation(t, c, 4) // the estimate of the prompt was too low
	e.admitOne(t, reservation, hold.Admitted)
	d := e.served(t, reservation, 4)
	d.Event.Billable.Prompt = 3
	e.settle(t, usage.Settled, d)
	e.wantWallet(t, c, 3*cent, 0)
	e.sound(t)
}

func TestShortfallIsThePlatformsAndTheProviderIsPaidInFull(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 6*cent)
	reservation, other := e.reservation(t, c, 4), e.reservation(t, c, 1)
	e.admitOne(t, reservation, hold.Admitted)
	e.admitOne(t, other, hold.Admitted) // its cent stays held
	d := e.served(t, reservation, 4)
	d.Event.Billable.Prompt = 6
	e.settle(t, usage.Settled, d)
	e.wantWallet(t, c, cent, cent)
	got := scan[[]int64](t, e, `SELECT ARRAY[list_price, payout, fee, charged, shortfall] FROM usage_settlement`)
	want := []int64{int64(10 * cent), int64(7 * cent), int64(3 * cent), int64(5 * cent), int64(5 * cent)}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("list price, payout, fee, charged, shortfall = %v, want %v", got, want)
		}
	}
	e.sound(t)
}

func TestOrphanWorkIsPaidByThePlatform(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	released, expired, free := e.reservation(t, c, 4), e.reservation(t, c, 5), e.free(t, c)
	for _, reservation := range []hold.Reservation{released, expired, free} {
		e.admitOne(t, reservation, hold.Admitted)
	}
	e.release(t, released.Request, free.Request)
	e.overdue(t)
	if n, err := e.store.ExpireHolds(t.Context(), ever, 10); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if n != 1 {
		t.Fatalf("expired: got %d, want 1", n)
	}
	batch := []usage.Delivery{e.served(t, released, 4), e.served(t, expired, 5), e.served(t, free, 9)}
	e.settle(t, usage.Orphaned, batch...)
	e.settle(t, usage.Duplicate, batch...)
	e.wantWallet(t, c, money.USD, 0)
	if paid := scan[int64](t, e,
		`SELECT sum(amount)::bigint FROM posting WHERE account_kind = 'l:provider:accrued'`); paid != int64(9*7*cent/10) {
		t.Errorf("providers were credited: got %d, want %d", paid, int64(9*7*cent/10))
	}
	e.sound(t)
}

func TestFreeRequestsAreRecordedWithoutMoney(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	reservation := e.free(t, c)
	e.admitOne(t, reservation, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, reservation, 7))
	e.wantWallet(t, c, 0, 0)
	if s := scan[string](t, e, `SELECT source FROM usage_settlement`); s != "free" {
		t.Errorf(`source: got %q, want "free"`, s)
	}
	e.sound(t)
}

func TestEventsThatContradictAdmissionAreQuarantined(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	for want, change := range map[usage.Result]func(*usage.Event){
		usage.UnknownRequest: func(ev *usage.Event) { ev.Request = request(t) },
		usage.PriceMismatch:  func(ev *usage.Event) { ev.Rates.PayoutOutput++ },
		usage.AboveHold:      func(ev *usage.Event) { ev.Billable.Completion = 5 },
	} {
		reservation := e.reservation(t, c, 4)
		e.admitOne(t, reservation, hold.Admitted)
		d := e.served(t, reservation, 4)
		change(&d.Event)
		d.Payload = []byte(want)
		e.settle(t, want, d)
		if s := scan[string](t, e, `SELECT state FROM hold WHERE request_id = $1`,
			[16]byte(reservation.Request)); s != "open" {
			t.Errorf(`%s: the hold: got %q, want "open"`, want, s)
		}
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM quarantine`); n != 3 {
		t.Errorf("got %d in quarantine, want 3", n)
	}
	e.sound(t)
}

func TestARefusedEventDoesNotStopTheOthers(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	var batch []usage.Delivery
	for range 9 {
		reservation := e.reservation(t, c, 1)
		e.admitOne(t, reservation, hold.Admitted)
		batch = append(batch, e.served(t, reservation, 1))
	}
	batch[4].Event.RequestedProvider = "\x00" // valid UTF-8 that PostgreSQL does not keep
	results, err := e.settler.Settle(t.Context(), batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := map[bool]usage.Result{true: usage.Refused, false: usage.Settled}[i == 4]; r != want {
			t.Errorf("delivery %d: got %s, want %s", i, r, want)
		}
	}
	e.wantWallet(t, c, money.USD-8*cent, cent)
	e.sound(t)
}

func TestSettleExpireAndReleaseRaceToOneEnd(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 10*money.USD)
	for range 4 {
		var claims []hold.Reservation
		for range 50 {
			claims = append(claims, e.reservation(t, c, 1))
		}
		for _, v := range e.admit(t, claims...) {
			if v.Outcome != hold.Admitted {
				t.Fatalf("not admitted: got %q, want %q", v.Outcome, hold.Admitted)
			}
		}
		e.overdue(t)
		var racers sync.WaitGroup
		for i := 0; i < len(claims); i += 10 {
			part := claims[i : i+10]
			racers.Go(func() {
				batch := make([]usage.Delivery, len(part))
				for i, reservation := range part {
					batch[i] = e.served(t, reservation, 1)
				}
				if _, err := e.settler.Settle(t.Context(), batch, nil); err != nil {
					t.Error(err)
				}
			})
			racers.Go(func() {
				all := make([]hold.RequestReport, len(part))
				for i, reservation := range part {
					all[i] = hold.RequestReport{Request: reservation.Request, Outcome: "failed", Attempts: []hold.Attempt{}}
				}
				if _, _, err := e.store.Conclude(t.Context(), all); err != nil {
					t.Error(err)
				}
			})
			racers.Go(func() {
				if _, err := e.store.ExpireHolds(t.Context(), ever, 7); err != nil {
					t.Error(err)
				}
			})
		}
		racers.Wait()
	}
	ends := scan[string](t, e,
		`SELECT string_agg(state || ' ' || n, ', ' ORDER BY state)
			FROM (SELECT state, count(*) AS n FROM hold GROUP BY state) s`)
	t.Logf("200 holds ended as %s", ends)
	if open := scan[int64](t, e, `SELECT count(*) FROM hold WHERE state = 'open'`); open != 0 {
		t.Errorf("holds open: got %d, want 0", open)
	}
	if lines := scan[int64](t, e, `SELECT count(*) FROM usage_settlement`); lines != 200 {
		t.Errorf("of 200 served requests have a line: got %d, want 200", lines)
	}
	if _, held := e.wallet(t, c); held != 0 {
		t.Errorf("still held: got %v, want 0", held)
	}
	e.sound(t)
}

func TestConcludeKeepsTheFirstWordAndIgnoresUnknownRequests(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	reservation := e.reservation(t, c, 4)
	e.admitOne(t, reservation, hold.Admitted)
	served := hold.RequestReport{Request: reservation.Request, Outcome: "completed", CommittedAttempt: 1, HTTPStatus: 200,
		Attempts: []hold.Attempt{{Attempt: 1, ProviderName: "a"}}}
	if n, _, err := e.store.Conclude(t.Context(), []hold.RequestReport{served}); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if n != 0 {
		t.Fatalf("released: got %d, want 0", n)
	}
	if n := e.release(t, reservation.Request, request(t)); n != 0 {
		t.Errorf("a second word released: got %d, want 0", n)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM request_report`); n != 1 {
		t.Errorf("got %d reports, want 1", n)
	}
	e.wantWallet(t, c, money.USD, 4*cent)

	other := e.reservation(t, c, 4)
	e.admitOne(t, other, hold.Admitted)
	if n := e.release(t, other.Request, other.Request); n != 1 {
		t.Errorf("released: got %d holds, want 1", n)
	}
	if n := e.release(t, other.Request); n != 0 {
		t.Errorf("a repeat released: got %d, want 0", n)
	}
	e.wantWallet(t, c, money.USD, 4*cent)
	e.sound(t)
}
