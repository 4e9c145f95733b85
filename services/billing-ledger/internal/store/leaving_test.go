package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// leftAt is the word on a request whose client left so long after its dispatch.
func leftAt(c hold.Reservation, ms int64) hold.RequestReport {
	return hold.RequestReport{Request: c.Request, Outcome: hold.ClientGone,
		Attempts: []hold.Attempt{{Attempt: 1, Result: hold.ClientGone, LatencyMS: ms}}}
}

func TestAnAccountWhoseClientsLeaveAtOnceTooOftenWaits(t *testing.T) {
	e := setup(t, unlimited)
	keys := e.keysOf(t, 2, money.USD)
	one, other := keys[0], keys[1]
	stranger := e.consumer(t, money.USD)
	tell := func(reports ...hold.RequestReport) {
		t.Helper()
		if _, _, err := e.store.Conclude(t.Context(), reports); err != nil {
			t.Fatal(err)
		}
	}
	// What nobody worked on, what was answered and what hung does not count.
	for range limit.LeftAtOnce {
		c, served, hung := e.reservation(t, one, 1), e.reservation(t, one, 1), e.reservation(t, one, 1)
		for _, reservation := range []hold.Reservation{c, served, hung} {
			e.admitOne(t, reservation, hold.Admitted)
		}
		failed := leftAt(served, 10)
		failed.Outcome = "failed"
		tell(hold.RequestReport{Request: c.Request, Outcome: hold.ClientGone, Attempts: []hold.Attempt{}},
			failed, leftAt(hung, 5000))
	}
	for i := range limit.LeftAtOnce {
		key := one
		if i%2 == 1 {
			key = other
		}
		c := e.reservation(t, key, 1)
		e.admitOne(t, c, hold.Admitted)
		tell(leftAt(c, 10))
		tell(leftAt(c, 10)) // the first word counts
	}
	for _, key := range []consumer{one, other} {
		if r := e.admitOne(t, e.reservation(t, key, 1), hold.LeftOften).Rate; r.Retry <= 0 || r.Retry > 10*time.Second {
			t.Errorf("got to wait %v, want up to 10 s", r.Retry)
		}
	}
	e.admitOne(t, e.reservation(t, stranger, 1), hold.Admitted)
	e.rest(t, 10*time.Second)
	var more []hold.RequestReport // as many as the test's own time may have made free, and one
	for range limit.LeftAtOnce / 2 {
		c := e.reservation(t, one, 1)
		e.admitOne(t, c, hold.Admitted)
		more = append(more, leftAt(c, 10))
	}
	tell(more...)
	e.admitOne(t, e.reservation(t, one, 1), hold.LeftOften)
	e.rest(t, time.Minute)
	e.admitOne(t, e.reservation(t, one, 1), hold.Admitted)
}

func TestManyThatLeaveAtOnceInOneBatchCountAsMany(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, money.USD)
	var reports []hold.RequestReport
	for range limit.LeftAtOnce + 20 {
		reservation := e.reservation(t, c, 1)
		e.admitOne(t, reservation, hold.Admitted)
		reports = append(reports, leftAt(reservation, 10))
	}
	if _, _, err := e.store.Conclude(t.Context(), reports); err != nil {
		t.Fatal(err)
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.LeftOften)
}
