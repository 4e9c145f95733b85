package store_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/batch"
)

// aDay is a database with a committed day of one provider, and a day that is collected.
func aDay(t *testing.T) *closing {
	t.Helper()
	c := newClosing(t)
	p := newProvider(t)
	c.earn(t, batch.Payg, p, 100, false)
	c.books.midnight()
	c.pass(t)
	c.books.midnight()
	if err := c.store.Collect(t.Context(), firstDay.AddDate(0, 0, 1), func(batch.Page) (batch.Seal, error) {
		return batch.Seal{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// Each attack is what a faulty program would do, as the application's role or, where the role's grants would hide the
// constraint, as the owner.
func TestTheDatabaseKeepsBatchesAsTheyAre(t *testing.T) {
	t.Parallel()
	c := aDay(t)
	const share = `INSERT INTO batch_share (day, chain_id, index, provider_id, beneficiary, earned, given, blocked, amount,
		lines, csv, statement, summary) SELECT day, chain_id, index + 1, gen_random_uuid(), beneficiary, %s, lines, csv,
		statement, summary FROM batch_share`
	for name, tc := range map[string]struct {
		asOwner   bool
		sql, says string
	}{
		"a line that changes, as the role": {false, `UPDATE batch_line SET amount = 1`, "permission denied"},
		"a line that changes":              {true, `UPDATE batch_line SET amount = 1`, "kept as they are"},
		"a line that is deleted":           {true, `DELETE FROM batch_line`, "kept as they are"},
		"lines that are cleared":           {true, `TRUNCATE batch_line`, "kept as they are"},
		"a line after its day": {false, `INSERT INTO batch_line (day, provider_id, line, kind, at, account, month, amount,
			entry_kind, business_id) VALUES ('2026-03-01', gen_random_uuid(), 9, 'entry', now(), 'l:provider:accrued', '', 1,
			'x', 'x')`, "is collected"},
		"a balance after its day": {false, `INSERT INTO batch_balance SELECT '2026-03-01', provider_id, account, month, 1, 1
			FROM batch_account LIMIT 1`, "is collected|duplicate key"},
		"an unknown account": {false, `INSERT INTO batch_account VALUES (gen_random_uuid(), 'x', '')`, "violates check"},
		"a gap of days": {false, `INSERT INTO batch_day (day, seal, lines)
			VALUES ('2026-03-05', decode(repeat('00', 32), 'hex'), 0)`, "follows the day before"},
		"another seal":           {true, `UPDATE batch_day SET seal = decode(repeat('11', 32), 'hex')`, "stays"},
		"a day that opens again": {true, `UPDATE batch_day SET committed_at = NULL, filled = NULL`, "stays"},
		"a batch after its day": {false, `INSERT INTO batch
			VALUES ('2026-03-01', 8453, decode(repeat('00', 32), 'hex'), 0, 0)`, "duplicate key|committed"},
		"a share after its day": {false, strings.Replace(share, "%s", "0, 0, false, 0", 1), "is committed"},
		"a share of more than was earned": {false, strings.Replace(share, "%s", "5, 0, false, 6", 1),
			"batch_share_amount"},
		"a blocked share of something": {false, strings.Replace(share, "%s", "5, 0, true, 5", 1), "batch_share_amount"},
		"a share that changes": {true, `UPDATE batch_share
			SET beneficiary = decode(repeat('11', 20), 'hex')`, "stays"},
		"a share that is posted twice": {false, `UPDATE batch_share SET posted = 0, entry_id = NULL`, "posted once"},
		"a share that is not posted again": {false, `UPDATE batch_share SET posted = NULL, entry_id = NULL,
			posted_at = NULL`, "posted once"},
		"a signature of another length": {false, `UPDATE batch_share SET signature = '\x00', signer = decode(repeat('11', 20),
			'hex'), signed_at = now()`, "violates check"},
		"a signature alone": {false, `UPDATE batch_share SET signature = decode(repeat('11', 65), 'hex')`, "signed_whole"},
		"an attempt for a posted share": {false, `INSERT INTO batch_attempt (day, provider_id, attempt, amount)
			SELECT day, provider_id, 2, 1 FROM batch_attempt`, "is posted"},
		"an attempt for more": {false, `INSERT INTO batch_attempt (day, provider_id, attempt, amount)
			SELECT day, provider_id, 2, amount FROM batch_attempt`, "less than the one before"},
		"a platform that lifts a block of sums": {false, `WITH b AS (INSERT INTO batch_block (day, provider_id, cause,
			differences) VALUES ('2026-03-01', gen_random_uuid(), 'sums', 1) RETURNING *)
			INSERT INTO batch_unblock (day, provider_id, cause, actor, reason) SELECT day, provider_id, cause, 'platform', 'x'
			FROM b`, "batch_unblock_platform"},
		"an operator without a reason": {false, `INSERT INTO batch_allowance (day, actor, reason)
			VALUES ('2026-03-02', 'operator:a', '')`, "violates check"},
		"a day of tomorrow": {false, `SELECT ensure_batch_partition((now() AT TIME ZONE 'UTC')::date + 1)`, "no batch has"},
		"a month that pays more than its pool": {false, `INSERT INTO plan_month VALUES ('2026-02', '2026-03-01', 5, 9, 6, 1,
			now())`, "violates check"},
	} {
		pool := c.pool
		if tc.asOwner {
			pool = c.owner
		}
		_, err := pool.Exec(t.Context(), tc.sql)
		refused := false
		for text := range strings.SplitSeq(tc.says, "|") {
			refused = refused || err != nil && strings.Contains(err.Error(), text)
		}
		if !refused {
			t.Errorf("%s: got the error %v, want %q", name, err, tc.says)
		}
	}
	c.audit(t)
}

func TestADayIsNotCommittedWithATotalThatIsNotItsShares(t *testing.T) {
	t.Parallel()
	c := aDay(t)
	err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `INSERT INTO batch VALUES ('2026-03-02', 8453, decode(repeat('00', 32), 'hex'),
			5, 0)`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `UPDATE batch_day SET committed_at = now(), filled = 0 WHERE day = '2026-03-02'`)
		return err
	})
	if err == nil {
		t.Errorf("got the error %v, want that a batch is the sum of its shares", err)
	} else if !strings.Contains(err.Error(), "sum of its shares") {
		t.Errorf("got the error %v, want that a batch is the sum of its shares", err)
	}
}

// Each fault is planted by the owner without the triggers that would refuse it.
func TestVerifyFindsEachPlantedFault(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"days follow each other": `DELETE FROM batch_line`,
		"accounts moved":         `UPDATE batch_balance SET moved = moved + 1 WHERE account = 'l:provider:accrued'`,
		"says was earned":        `UPDATE batch_line SET amount = amount + 1 WHERE kind = 'payg'`,
		"says was given": `UPDATE batch_share SET given = 7, amount = earned - 7, posted = NULL, entry_id = NULL,
			posted_at = NULL`,
		"given more than it earned": `UPDATE batch_line SET amount = amount - 1 WHERE kind = 'payg'`,
		"are the posted shares":     `UPDATE batch_share SET posted = posted - 1 WHERE posted > 1`,
		"roots are those":           `UPDATE batch SET root = decode(repeat('11', 32), 'hex') WHERE chain_id = 1`,
		"statements say":            `UPDATE batch_share SET summary = decode(repeat('11', 32), 'hex')`,
		"the digest of a CSV":       `UPDATE batch_line SET business_id = 'x' WHERE kind = 'payg'`,
		"a closed month":            `INSERT INTO plan_month VALUES ('2026-02', '2026-03-01', 5, 5, 5, 1, now())`,
		"what was posted of closed": `INSERT INTO plan_month VALUES ('2026-02', '2026-03-01', 0, 0, 0, 0, now());
			INSERT INTO plan_late SELECT '2026-02', '2026-03-02', provider_id, 1, gen_random_uuid() FROM batch_share LIMIT 1`,
		"a closed month withholds": `INSERT INTO plan_month VALUES ('2026-02', '2026-03-01', 5, 5, 5, 1, '2026-03-02');
			INSERT INTO plan_share SELECT '2026-02', provider_id, 5, 5, 1, 1 FROM batch_share LIMIT 1`,
		"shared of a closed month": `INSERT INTO plan_month VALUES ('2026-02', '2026-03-01', 0, 0, 0, 0, now());
			INSERT INTO plan_release VALUES (gen_random_uuid(), '2026-02', gen_random_uuid())`,
		"a coin is valued": `ALTER TABLE revaluation DROP CONSTRAINT revaluation_worth; INSERT INTO revaluation
			SELECT '2026-03-02', '1:eth', 1, 0, 5, 5, 'x', now(), gen_random_uuid()`,
	} {
		c := newClosing(t)
		c.earn(t, batch.Payg, newProvider(t), 100, false)
		for range 2 {
			c.books.midnight()
			c.pass(t)
		}
		// The posting is of the second night, and the third day's list would show it.
		c.books.midnight()
		c.pass(t)
		if _, err := c.owner.Exec(t.Context(), `SET session_replication_role = replica; `+sql); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		report, err := c.store.Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, i := range report.Invariants {
			found = found || strings.Contains(i.Name, name) && i.Drift > 0
		}
		if !found {
			t.Errorf("%s: got %+v, want that invariant to drift", name, report.Invariants)
		}
	}
}
