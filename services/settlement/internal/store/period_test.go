package store_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/store"
)

// parts reads a period that ends on the day that the books have.
func (c *closing) parts(t *testing.T, p ids.ProviderID, length int) batch.Parts {
	t.Helper()
	today := c.books.today
	days, err := c.store.DaysEarned(t.Context(), p, today.AddDate(0, 0, 1-batch.PeriodDays), today)
	if err != nil {
		t.Fatal(err)
	}
	return batch.PeriodOf(days, today, length).Parts
}

func (c *closing) wantParts(t *testing.T, what string, p ids.ProviderID, length int, want batch.Parts) {
	t.Helper()
	if got := c.parts(t, p, length); got != want {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func TestEarningsOfLateAreThoseOfStatementsAndOfLinesSince(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p, other := newProvider(t), newProvider(t)
	c.wantParts(t, "before all", p, 30, batch.Parts{})
	c.earn(t, batch.Payg, p, 100, false)
	held := c.earn(t, batch.Payg, p, 7, true)
	c.earn(t, batch.Plan, p, 1000, false)
	c.earn(t, batch.Payg, other, 5, false)
	c.wantParts(t, "the first day so far", p, 1, batch.Parts{Unbatched: 1107})
	c.books.midnight()
	c.earn(t, batch.Payg, p, 20, false)
	c.wantParts(t, "today while yesterday is not batched", p, 1, batch.Parts{Unbatched: 20})
	c.wantParts(t, "both days while none is batched", p, 7, batch.Parts{Unbatched: 1127})
	c.pass(t)
	c.wantParts(t, "today when yesterday is batched", p, 1, batch.Parts{Unbatched: 20})
	c.wantParts(t, "both days", p, 7, batch.Parts{Unbatched: 20, Settled: 100, Held: 7, Pending: 1000})
	c.books.end(held, batch.Released)
	c.books.midnight()
	c.pass(t)
	c.wantParts(t, "a release, on its day", p, 2, batch.Parts{Settled: 27, Held: -7})
	c.wantParts(t, "all days, after the release", p, 30, batch.Parts{Settled: 127, Pending: 1000})
	c.wantParts(t, "another provider", other, 30, batch.Parts{Settled: 5})
	for range 30 {
		c.books.midnight()
	}
	for range 30 {
		c.pass(t)
	}
	c.wantParts(t, "thirty days later", p, 30, batch.Parts{})
}

func TestWhatTheLedgerOverruledCountsToday(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p, other := newProvider(t), newProvider(t)
	for range 3 {
		ownLine(t, c.pool, request(t, c.books.today), p, 10, "hub")
	}
	lines := func() (all []ids.RequestID) {
		rows, err := c.pool.Query(t.Context(), `SELECT request_id FROM earning_line ORDER BY request_id`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id [16]byte
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			all = append(all, id)
		}
		return all
	}()
	overrule := func(sql string, args ...any) {
		t.Helper()
		if _, err := c.pool.Exec(t.Context(), sql, slices.Insert(args, 0, any(c.books.today))...); err != nil {
			t.Fatal(err)
		}
	}
	const correction = `INSERT INTO earning_correction (day, request_id, was_evidence_source, was_provider_id,
		was_payout_nano_usd, evidence_source, provider_id, prompt_tokens, completion_tokens, payout_nano_usd)
		VALUES ($1, $2, 'hub', $3, 10, 'gateway', $4, 1, 1, $5)`
	overrule(correction, lines[0], p, p, 4)
	overrule(correction, lines[1], p, other, 10)
	overrule(`INSERT INTO earning_ruling (day, request_id, ruling, settled) VALUES ($1, $2, 1, false)`, lines[2])
	c.wantParts(t, "less, another's, and none", p, 1, batch.Parts{Unbatched: 4})
	c.wantParts(t, "whose it is", other, 1, batch.Parts{Unbatched: 10})
}

// On a busy day the lines of other providers are not read.
func TestTheSumOfTodayReadsTheProvidersLinesAlone(t *testing.T) {
	t.Parallel()
	c := newClosing(t)
	p := newProvider(t)
	if _, err := c.owner.Exec(t.Context(), `INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id,
			price_version_id, prompt_tokens, completion_tokens, payout_nano_usd, evidence_source)
		SELECT $1, gen_random_uuid(), CASE WHEN n <= 400 THEN $2 ELSE gen_random_uuid() END, 1, 'm', gen_random_uuid(), 1, 1,
			1, 'hub' FROM generate_series(1, 20000) AS n`, c.books.today, p); err != nil {
		t.Fatal(err)
	}
	if _, err := c.owner.Exec(t.Context(), `VACUUM ANALYZE earning_line`); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	c.wantParts(t, "today", p, 1, batch.Parts{Unbatched: 400})
	t.Logf("the sum of 400 of 20,000 lines took %v", time.Since(begun))
	var plan []byte
	err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), store.ByIndex); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), `EXPLAIN (FORMAT JSON) `+store.SelectUnbatched, p, []time.Time{c.books.today}).
			Scan(&plan)
	})
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]bool{`"Index Name": "earning_line_provider"`: true, `"Seq Scan"`: false} {
		if got := bytes.Contains(plan, []byte(part)); got != want {
			t.Errorf("plan: got %s in it %t, want %t: %s", part, got, want, plan)
		}
	}
}
