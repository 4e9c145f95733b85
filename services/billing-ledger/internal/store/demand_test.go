package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/demand"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestDemandIsOfWhatWasSettledInItsTime(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	paid, free, before, long := e.reservation(t, c, 10), e.free(t, c), e.reservation(t, c, 10), e.reservation(t, c, 10)
	// A request is settled on its day or later.
	now := time.Now()
	paid.Request, free.Request = requestAt(t, now.Add(-75*time.Minute)), requestAt(t, now.Add(-75*time.Minute))
	before.Request, long.Request = requestAt(t, now.Add(-26*time.Hour)), requestAt(t, now.Add(-50*time.Hour))
	e.admitOne(t, e.reservation(t, c, 10), "admitted") // and never settled
	e.admitOne(t, paid, "admitted")
	e.admitOne(t, free, "admitted")
	e.admitOne(t, before, "admitted")
	e.admitOne(t, long, "admitted")
	timed, untimed := e.served(t, paid, 4), e.served(t, free, 3)
	lasted(&timed, 1500*time.Millisecond)
	lasted(&untimed, 0)
	e.settle(t, usage.Settled, timed, untimed, e.served(t, before, 2), e.served(t, long, 1))
	// The last hour that is closed ended up to 70 minutes ago.
	e.exec(t, `UPDATE usage_settlement SET settled_at = settled_at - interval '75 minutes'`)
	e.exec(t, `UPDATE usage_settlement SET settled_at = settled_at - interval '24 hours 1 minute' WHERE request_id = $1`,
		[16]byte(before.Request))
	e.exec(t, `UPDATE usage_settlement SET settled_at = settled_at - interval '48 hours 1 minute' WHERE request_id = $1`,
		[16]byte(long.Request))

	models, err := demand.NewCache(e.store, clock.System).Models(t.Context())
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(models) != 2 {
		t.Fatalf("len(models): got %d, want 2, in %+v", len(models), models)
	}
	want := map[string]demand.Model{
		"acme/large": {ID: "acme/large", Before: 1, Sum: demand.Sum{
			Requests: 1, Tokens: 4, Revenue: 4 * cent, Payout: 4 * cent * 7 / 10, Latency: 1500 * time.Millisecond, Timed: 1}},
		"acme/free": {ID: "acme/free", Sum: demand.Sum{Requests: 1, Tokens: 3, Timed: 1}},
	}
	for _, m := range models {
		if m != want[m.ID] {
			t.Errorf("got %+v, want %+v", m, want[m.ID])
		}
	}
	now, err = e.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := e.settledAt(t, before)
	for from, want := range map[time.Time]time.Time{
		now.Add(-48 * time.Hour): late, late: late, now.Add(-50 * time.Hour): e.settledAt(t, long), now: {},
	} {
		first, err := e.store.FirstSettled(t.Context(), from)
		if err != nil {
			t.Errorf("since %s: got the error %v, want none", from, err)
		}
		if !first.Equal(want) {
			t.Errorf("the first since %s: got %s, want %s", from, first, want)
		}
	}
	e.wantNoTokens(t, now)
}

// wantNoTokens checks that images and milliseconds are no tokens.
func (e *env) wantNoTokens(t *testing.T, now time.Time) {
	t.Helper()
	e.exec(t, `UPDATE usage_settlement SET unit = 1, input_rate = 0, payout_input_rate = 0`)
	sums, err := e.store.Settled(t.Context(), now.Add(-2*time.Hour), now, 1)
	if err != nil {
		t.Fatalf("one model of two: got the error %v, want none", err)
	}
	if len(sums) != 1 {
		t.Fatalf("one model of two: len(sums): got %d, want 1, in %+v", len(sums), sums)
	}
	for id, s := range sums {
		if s.Tokens != 0 {
			t.Errorf("%s: s.Tokens: got %d, want 0", id, s.Tokens)
		} else if s.Requests != 1 {
			t.Errorf("%s: s.Requests: got %d, want 1", id, s.Requests)
		}
	}
}

// settledAt returns when a request was settled.
func (e *env) settledAt(t *testing.T, reservation hold.Reservation) time.Time {
	t.Helper()
	return scan[time.Time](t, e, `SELECT settled_at FROM usage_settlement WHERE request_id = $1`,
		[16]byte(reservation.Request))
}

// lasted sets how long a request took.
func lasted(d *usage.Delivery, long time.Duration) {
	d.Event.EndedAt = d.Event.DispatchedAt.Add(long)
	sum := d.Event.Hash()
	d.Payload = sum[:]
}

// TestDemandIsReadByItsIndex looks at the plans: partitions of other days are not opened,
// and no row of another hour is read.
func TestDemandIsReadByItsIndex(t *testing.T) {
	e := setup(t, unlimited)
	now := time.Now().UTC()
	for sql, args := range map[string][]any{
		store.SumSettled:   {now.Add(-time.Hour), now, now, now, 1},
		store.FirstSettled: {now.Add(-time.Hour), now},
	} {
		plan := e.planOf(t, sql, args...)
		// Of six partitions, those of today and tomorrow and the default one.
		if got := strings.Count(plan, "settled_at_idx"); got == 0 || got > 3 {
			t.Errorf("partitions that are read by their index: got %d, want 1 to 3, in %s", got, plan)
		}
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf(`plan: got %q, want it without "Seq Scan"`, plan)
		}
	}
}

// planOf returns the plan of a statement in a transaction of Store.demand.
func (e *env) planOf(t *testing.T, sql string, args ...any) string {
	t.Helper()
	var lines []string
	err := pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), `EXPLAIN `+sql, args...)
		if err == nil {
			lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil {
		t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

// BenchmarkAnHourOfDemand is of 100,000 requests of 100 models among as many of
// other hours.
func BenchmarkAnHourOfDemand(b *testing.B) {
	e := setup(b, unlimited)
	c := e.consumer(b, 100*cent)
	reservation := e.reservation(b, c, 10)
	if e.admit(b, reservation)[0].Outcome != "admitted" {
		b.Fatal("not admitted")
	}
	if _, err := e.settler.Settle(b.Context(), []usage.Delivery{e.served(b, reservation, 4)}, nil); err != nil {
		b.Fatal(err)
	}
	columns := scan[string](b, e, `SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = 'usage_settlement'::regclass AND attnum > 0 AND attgenerated = '' AND NOT attisdropped`)
	values := strings.NewReplacer(
		"request_id", "(left(request_id::text, 24) || lpad(to_hex(n), 12, '0'))::uuid",
		"model_id", "'m' || n % 100", "settled_at", "settled_at - n * interval '36 milliseconds'").Replace(columns)
	e.exec(b, `INSERT INTO usage_settlement (`+columns+`) SELECT `+values+
		` FROM usage_settlement, generate_series(1, 200000) AS n`)
	if _, err := e.owner.Exec(b.Context(), `ANALYZE usage_settlement`); err != nil {
		b.Fatal(err)
	}
	now, err := e.store.Now(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if sums, err := e.store.Settled(b.Context(), now.Add(-time.Hour), now, demand.MaxModels); err != nil {
			b.Fatalf("got the error %v, want none", err)
		} else if len(sums) < 100 {
			b.Fatalf("len(sums): got %d, want at least 100", len(sums))
		}
	}
}
