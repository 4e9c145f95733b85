package store_test

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

const retention = store.RetentionLeast // each more is a day to seal

// left are the tables in which a request leaves something beside its line.
var left = []string{"hold", "request_report", "renewal", "work_receipt", "orphan_review"}

// closedAt serves and settles a request with an id of that time, and puts a row
// about it into each of the tables.
func (e *env) closedAt(t testing.TB, c consumer, at time.Time) (hold.Reservation, usage.Delivery) {
	t.Helper()
	reservation := e.reservation(t, c, 1)
	reservation.Request = requestAt(t, at)
	e.admitOne(t, reservation, hold.Admitted)
	served := e.served(t, reservation, 1)
	e.conclude(t, hold.RequestReport{
		Request: reservation.Request, Outcome: "completed", CommittedAttempt: 1, RelayedTokens: 1, RelayedBytes: 4,
		HTTPStatus: 200, Attempts: []hold.Attempt{{Attempt: 1, ProviderID: served.Event.Provider.String(),
			ProviderName: "gpu-works", Result: "completed", HubID: "hub-1"}},
	})
	e.settle(t, usage.Settled, served)
	e.exec(t, `INSERT INTO renewal (request_id, committed_attempt, hub_id, provider_id, relayed_tokens, relayed_bytes)
		VALUES ($1, 1, 'hub-1', $2, 1, 4)`, [16]byte(reservation.Request), [16]byte(served.Event.Provider))
	e.exec(t, `INSERT INTO work_receipt (request_id, attempt, provider_id, epoch, hub_id, model_id, sent_tokens,
		sent_bytes, complete, ended_at, proof, public_key, signature)
		VALUES ($1, 1, $2, 7, 'hub-1', 'acme/large', 1, 4, true, now(), '\x00', $3, $4)`,
		[16]byte(reservation.Request), [16]byte(served.Event.Provider), make([]byte, 32), make([]byte, 64))
	e.exec(t, `INSERT INTO orphan_review (request_id, publications) VALUES ($1, 1)`, [16]byte(reservation.Request))
	return reservation, served
}

func (e *env) rowsOf(t testing.TB, r ids.RequestID) map[string]int64 {
	t.Helper()
	rows := map[string]int64{}
	for _, table := range left {
		if n := scan[int64](t, e, `SELECT count(*) FROM `+table+` WHERE request_id = $1`, [16]byte(r)); n > 0 {
			rows[table] = n
		}
	}
	return rows
}

func (e *env) dropCleared(t testing.TB, limit int) int {
	t.Helper()
	n, err := e.store.DropCleared(t.Context(), retention, limit)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// longAgo is a ledger in which two requests ended so many days ago, and one
// today. All days but today are sealed.
func longAgo(t *testing.T, days int) (e *env, c consumer, old []hold.Reservation, served usage.Delivery,
	today hold.Reservation) {
	t.Helper()
	e = setup(t, unlimited)
	c = e.consumer(t, money.USD)
	at := time.Now().AddDate(0, 0, -days)
	for i := range 2 {
		var reservation hold.Reservation
		reservation, served = e.closedAt(t, c, at.Add(time.Duration(i)*time.Millisecond))
		old = append(old, reservation)
	}
	e.pushBack(t, days)
	e.sealDue(t)
	today, _ = e.closedAt(t, c, time.Now())
	return e, c, old, served, today
}

func TestWhatRequestsLeftGoesAfterTheRetentionAndTheirLinesStay(t *testing.T) {
	e, c, old, served, today := longAgo(t, retention+1)
	if n := e.dropCleared(t, 1); n != 1 {
		t.Fatalf("dropped: got %d, want the first", n)
	}
	if rows := e.rowsOf(t, old[0].Request); len(rows) != 0 {
		t.Errorf("the first left: got %d, want 0, in %v", len(rows), rows)
	}
	if rows := e.rowsOf(t, old[1].Request); len(rows) != len(left) {
		t.Errorf("the second has %v, want a row in each of %v", rows, left)
	}
	e.sound(t) // a day of which half is left
	if n := e.dropCleared(t, 500) + e.dropCleared(t, 500); n != 1 {
		t.Errorf("dropped: got %d more, want one", n)
	}
	e.sound(t)
	if rows := e.rowsOf(t, today.Request); len(rows) != len(left) {
		t.Errorf("the request of today has %v, want a row in each of %v", rows, left)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM usage_settlement`); n != 3 {
		t.Errorf("lines left of 3: got %d, want 3", n)
	}
	// Its usage is known for ever, and its consumer can look it up.
	e.settle(t, usage.Duplicate, served)
	r, err := e.store.Receipt(t.Context(), old[1].Request, c.account)
	if err != nil {
		t.Errorf("the receipt: got the error %v, want none", err)
	} else if r == nil {
		t.Error("the receipt: got nil, want a value")
	} else if r.State != hold.Settled {
		t.Errorf("the receipt: r.State: got %q, want %q", r.State, hold.Settled)
	} else if r.Billing != hold.PayAsYouGo {
		t.Errorf("the receipt: r.Billing: got %q, want %q", r.Billing, hold.PayAsYouGo)
	} else if r.Usage == nil {
		t.Error("the receipt: r.Usage: got nil, want a value")
	} else if r.Usage.Charged != cent {
		t.Errorf("the receipt: r.Usage.Charged: got %v, want %v", r.Usage.Charged, cent)
	} else if r.Rates != centRates {
		t.Errorf("the receipt: r.Rates: got %+v, want %+v", r.Rates, centRates)
	} else if r.Price != e.price {
		t.Errorf("the receipt: r.Price: got %v, want %v", r.Price, e.price)
	} else if r.Model != "acme/large" {
		t.Errorf(`the receipt: r.Model: got %q, want "acme/large"`, r.Model)
	} else if want := old[1].Request.Time(); !r.AdmittedAt.Equal(want) {
		t.Errorf("the receipt: r.AdmittedAt: got %v, want %v", r.AdmittedAt, want)
	}
	if r, err := e.store.Receipt(t.Context(), old[1].Request, e.consumer(t, 0).account); r != nil {
		t.Errorf("another account reads: got %+v, want nil", r)
	} else if err != nil {
		t.Errorf("another account reads: got the error %v, want none", err)
	}
}

func TestADayIsNotClearedBeforeItsTime(t *testing.T) {
	for _, tc := range []struct {
		name    string
		days    int
		overdue int64
		keep    func(t *testing.T, e *env, old hold.Reservation)
	}{
		{"its retention goes on", retention, 0, func(*testing.T, *env, hold.Reservation) {}},
		{"it is not sealed", retention + 3, 2, func(t *testing.T, e *env, _ hold.Reservation) {
			e.exec(t, `DELETE FROM balance_snapshot`)
			e.exec(t, `DELETE FROM seal WHERE day > (SELECT min(day) FROM seal)`)
			e.dropCleared(t, 500) // the day before it, which is sealed
		}},
		{"no day was ever sealed", retention + 3, 3, func(t *testing.T, e *env, _ hold.Reservation) {
			e.exec(t, `DELETE FROM balance_snapshot`)
			e.exec(t, `DELETE FROM seal`)
		}},
		{"a hold of it is open", retention + 1, 1, func(t *testing.T, e *env, old hold.Reservation) {
			e.exec(t, `UPDATE hold SET state = 'open', closed_at = NULL WHERE request_id = $1`, [16]byte(old.Request))
		}},
		{"a review of it goes on", retention + 1, 1, func(t *testing.T, e *env, old hold.Reservation) {
			e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE request_id = $1`, [16]byte(old.Request))
		}},
		{"another replica is about it", retention + 1, 1, func(t *testing.T, e *env, _ hold.Reservation) {
			tx, err := e.owner.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
			if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtext('billing.drop_cleared'))`); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, _, old, _, _ := longAgo(t, tc.days)
			tc.keep(t, e, old[0])
			before := scan[int64](t, e, `SELECT count(*) FROM cleared_day`)
			if n := e.dropCleared(t, 500); n != 0 {
				t.Errorf("dropped: got %d requests, want none", n)
			}
			if n := scan[int64](t, e, `SELECT count(*) FROM cleared_day`) - before; n != 0 {
				t.Errorf("cleared: got %d days, want none", n)
			}
			if figures, err := e.store.Figures(t.Context(), retention); err != nil || figures.Overdue != tc.overdue {
				t.Errorf("got %d days overdue, %v, want %d", figures.Overdue, err, tc.overdue)
			}
		})
	}
}

func TestEachDayIsClearedInItsTurnUpToTheRetention(t *testing.T) {
	e, _, _, _, _ := longAgo(t, retention+4)
	for range 10 {
		e.dropCleared(t, 500)
	}
	if n := scan[int64](t, e, `SELECT count(*) FROM cleared_day`); n != 4 {
		t.Errorf("got %d days cleared, want the four that are older than the retention", n)
	}
	if figures, err := e.store.Figures(t.Context(), retention); err != nil || figures.Overdue != 0 {
		t.Errorf("got %d days overdue, %v, want 0", figures.Overdue, err)
	}
	if last := scan[time.Time](t, e, `SELECT max(day) FROM cleared_day`); !last.Equal(
		time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -retention-1)) {
		t.Errorf("the last cleared day is %s", last.Format(time.DateOnly))
	}
}

func TestDriftOfDaysThatAreKeptIsFoundAfterOthersWereCleared(t *testing.T) {
	e, _, _, _, today := longAgo(t, retention+1)
	for range 3 {
		e.dropCleared(t, 500)
	}
	e.sound(t)
	e.exec(t, `DELETE FROM hold WHERE request_id = $1`, [16]byte(today.Request))
	e.wantDrift(t, "every settled request has its closed hold", today.Request.String())
}

func TestRequestsOfAClearedDayThatComeLateAreDroppedWhenTheyAreClosed(t *testing.T) {
	e, c, _, _, _ := longAgo(t, retention+1)
	for range 3 {
		e.dropCleared(t, 500)
	}
	late := e.reservation(t, c, 1)
	late.Request = requestAt(t, time.Now().AddDate(0, 0, -retention-1))
	e.admitOne(t, late, hold.Admitted)
	if n := e.dropCleared(t, 500); n != 0 {
		t.Fatalf("an open hold was dropped: got %d, want 0", n)
	}
	e.sound(t)
	e.settle(t, usage.Settled, e.served(t, late, 1))
	if n := e.dropCleared(t, 500); n != 1 {
		t.Errorf("dropped: got %d, want the late one", n)
	}
	e.sound(t)
}

func TestRequestsAreKeptForAWeekAtLeastAndDroppedInBoundedBatches(t *testing.T) {
	e := setup(t, unlimited)
	for _, bad := range [][2]int{{7, 1}, {-1, 1}, {8, 0}, {8, 10001}} {
		if _, err := e.store.DropCleared(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%d days in batches of %d are accepted", bad[0], bad[1])
		}
	}
	if n, err := e.store.DropCleared(t.Context(), 8, 10000); n != 0 {
		t.Errorf("of an empty ledger: got %d, want 0", n)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}
