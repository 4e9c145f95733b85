package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/passbook"
)

// Mark names the transactions of this database that run, by the lock that each has on its own
// number: the server shows those to everybody, and the times of transactions only to some.
// Whoever holds the lock of auditors only reads, and is left out.
func (p Passbook) Mark(ctx context.Context, lag time.Duration) (passbook.Mark, error) {
	var m passbook.Mark
	err := p.pool.QueryRow(ctx, `SELECT now() - $1::interval, ARRAY(`+running+`)`, lag).Scan(&m.At, &m.Running)
	if err != nil {
		return m, fmt.Errorf("name the transactions under way: %w", err)
	}
	m.At = m.At.UTC()
	return m, nil
}

// Due asks for the first of each kind by the index on its time; see passbook.FoldStore.
func (p Passbook) Due(ctx context.Context) (bool, error) {
	return p.foldDue(ctx, `SELECT until_at < now() - $1::interval
			OR (SELECT at FROM entry WHERE at >= f.until_at ORDER BY at LIMIT 1) IS NOT NULL
			OR (SELECT settled_at FROM usage_settlement WHERE settled_at >= f.until_at
				ORDER BY settled_at LIMIT 1) IS NOT NULL
		FROM passbook_fold f`)
}

// foldDue asks whether a fold is due; $1 is passbook.IdleInterval.
func (s *Store) foldDue(ctx context.Context, sql string) (due bool, err error) {
	if err := s.pool.QueryRow(ctx, sql, passbook.IdleInterval).Scan(&due); err != nil {
		return false, fmt.Errorf("look behind the fold: %w", err)
	}
	return due, nil
}

// readerLock is the key of the lock of transactions that only read; see Audit.
const readerLock = `hashtext('billing.reader')`

// running lists the transactions under way but this one and those that only read. Those of
// the server itself, such as a vacuum, have no user.
const running = `SELECT l.virtualtransaction FROM pg_locks l
	WHERE l.locktype = 'virtualxid' AND l.pid <> pg_backend_pid()
		AND EXISTS (SELECT FROM pg_stat_get_activity(l.pid) a
			WHERE a.datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND a.usesysid IS NOT NULL)
		AND NOT EXISTS (SELECT FROM pg_locks r WHERE r.pid = l.pid AND r.locktype = 'advisory'
			AND r.objsubid = 1 AND r.classid = (` + readerLock + `::bigint >> 32 & 4294967295)::oid
			AND r.objid = (` + readerLock + `::bigint & 4294967295)::oid)`

// Passed reports whether none of a mark's transactions runs any more.
func (p Passbook) Passed(ctx context.Context, m passbook.Mark) (bool, error) {
	if len(m.Running) == 0 {
		return true, nil
	}
	var passed bool
	err := p.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM (`+running+`) r WHERE r.virtualtransaction = ANY ($1))`,
		m.Running).Scan(&passed)
	if err != nil {
		return false, fmt.Errorf("look for transactions under way: %w", err)
	}
	return passed, nil
}

// Fold takes one step; see passbook.FoldStore.
func (p Passbook) Fold(ctx context.Context, upTo time.Time, rows int) (passbook.Progress, error) {
	var done passbook.Progress
	err := p.inTx(ctx, func(tx pgx.Tx) error {
		done = passbook.Progress{}
		var at folding
		err := tx.QueryRow(ctx, `SELECT until_at, invoice_month, invoiced FROM passbook_fold FOR UPDATE SKIP LOCKED`).
			Scan(&at.until, &at.month, &at.invoiced)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another replica is at it
		}
		if err != nil {
			return fmt.Errorf("read how far the fold is: %w", err)
		}
		at.until, at.month = at.until.UTC(), at.month.UTC()
		if !at.until.Before(at.end()) {
			done, err = p.invoice(ctx, tx, at)
		} else {
			done, err = p.foldLines(ctx, tx, at, upTo, rows)
		}
		return err
	})
	return done, err
}

// foldLines makes the lines, sums, receipts and credit notes of what was recorded from where
// the fold is, at the most up to the end of the month.
func (p Passbook) foldLines(
	ctx context.Context, tx pgx.Tx, at folding, upTo time.Time, rows int,
) (passbook.Progress, error) {
	last := upTo
	if at.end().Before(last) {
		last = at.end()
	}
	if !last.After(at.until) {
		return passbook.Progress{}, nil
	}
	var to time.Time
	if err := tx.QueryRow(ctx, foldTo, at.until, last, rows).Scan(&to); err != nil {
		return passbook.Progress{}, fmt.Errorf("find the end of the step: %w", err)
	}
	if _, err := tx.Exec(ctx, insertSeries, at.until, to); err != nil {
		return passbook.Progress{}, fmt.Errorf("insert series of usage: %w", err)
	}
	var done passbook.Progress
	if err := tx.QueryRow(ctx, insertLinesOfBooks, at.until, to).Scan(&done.Lines); err != nil {
		return done, fmt.Errorf("insert lines: %w", err)
	}
	var err error
	if done.Documents, err = p.documentEntries(ctx, tx, at.until, to); err != nil {
		return done, err
	}
	if _, err := tx.Exec(ctx, `UPDATE passbook_fold SET until_at = $1`, to); err != nil {
		return done, fmt.Errorf("move the fold on: %w", err)
	}
	done.More = to.Before(upTo)
	return done, nil
}

// foldTo finds the end of a step that begins at $1, ends at the latest at $2, and takes some
// $3 settled requests and as many entries. All rows of one moment are of one step.
const foldTo = `SELECT least($2::timestamptz,
	(SELECT max(at) + interval '1 microsecond' FROM (SELECT settled_at AS at FROM usage_settlement
		WHERE settled_at >= $1 AND settled_at < $2 ORDER BY settled_at LIMIT $3) u HAVING count(*) = $3),
	(SELECT max(at) + interval '1 microsecond' FROM (SELECT at FROM entry
		WHERE at >= $1 AND at < $2 ORDER BY at LIMIT $3) e HAVING count(*) = $3))`

const insertSeries = `INSERT INTO usage_series (account_id, key_id, model_id, provider_id, source, unit)
	SELECT DISTINCT u.account_id, u.key_id, u.model_id, u.provider_id, u.source, u.unit
	FROM usage_settlement u WHERE u.settled_at >= $1 AND u.settled_at < $2
		AND NOT EXISTS (SELECT FROM usage_series s WHERE (s.account_id, s.key_id, s.model_id, s.provider_id, s.source,
			s.unit) = (u.account_id, u.key_id, u.model_id, u.provider_id, u.source, u.unit))`

// insertLinesOfBooks makes lines and sums. Of one moment, entries come before requests,
// because credit that was spent was there first. The balances are read before the first line
// is inserted: read for each line, they would pass over all lines that this statement has
// inserted, and its time would grow with the square of their number.
const insertLinesOfBooks = `WITH moved AS (
	SELECT p.owner_id AS account_id, e.at, 0 AS class, e.id AS ref, e.kind, sum(p.amount)::bigint AS amount,
		NULL::bigint AS series_id, NULL::bigint AS prompt, NULL::bigint AS completion, NULL::bigint AS list_price
	FROM entry e JOIN posting p ON p.entry_id = e.id
	WHERE e.at >= $1 AND e.at < $2 AND p.account_kind = 'l:consumer:available'
	GROUP BY p.owner_id, e.at, e.id, e.kind HAVING sum(p.amount) <> 0
	UNION ALL
	SELECT u.account_id, u.settled_at, 1, u.request_id, 'usage', -u.charged, s.id, u.prompt_tokens, u.completion_tokens,
		u.list_price
	FROM usage_settlement u JOIN usage_series s ON (s.account_id, s.key_id, s.model_id, s.provider_id, s.source, s.unit)
		= (u.account_id, u.key_id, u.model_id, u.provider_id, u.source, u.unit)
	WHERE u.settled_at >= $1 AND u.settled_at < $2),
opened AS MATERIALIZED (
	SELECT a.account_id, coalesce((SELECT l.balance FROM passbook_line l WHERE l.account_id = a.account_id
		ORDER BY l.at DESC, l.n DESC LIMIT 1), 0) AS balance
	FROM (SELECT DISTINCT account_id FROM moved) a),
made AS (
	INSERT INTO passbook_line (account_id, at, n, kind, ref, amount, balance, series_id, prompt_tokens,
		completion_tokens, list_price)
	SELECT m.account_id, m.at, row_number() OVER (PARTITION BY m.account_id, m.at ORDER BY m.class, m.ref), m.kind,
		m.ref, m.amount, o.balance + sum(m.amount) OVER (PARTITION BY m.account_id ORDER BY m.at, m.class, m.ref),
		m.series_id, m.prompt, m.completion, m.list_price
	FROM moved m JOIN opened o USING (account_id)
	RETURNING series_id, at, amount, prompt_tokens, completion_tokens, list_price),
summed AS (
	INSERT INTO usage_day AS d (series_id, day, requests, prompt_tokens, completion_tokens, charged, covered)
	SELECT m.series_id, (m.at AT TIME ZONE 'UTC')::date, count(*), sum(m.prompt_tokens), sum(m.completion_tokens),
		-sum(m.amount), sum(CASE s.source WHEN 'plan' THEN m.list_price ELSE 0 END)
	FROM made m JOIN usage_series s ON s.id = m.series_id GROUP BY 1, 2
	ON CONFLICT (series_id, day) DO UPDATE SET requests = d.requests + excluded.requests,
		prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
		completion_tokens = d.completion_tokens + excluded.completion_tokens,
		charged = d.charged + excluded.charged, covered = d.covered + excluded.covered)
SELECT count(*) FROM made`
