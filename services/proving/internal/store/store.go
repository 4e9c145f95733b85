// Package store reads the databases of the marketplace's services as nobody in production
// may: as a superuser, for a harness that wants to know whether work is left and to give
// all rows to an auditor. It changes nothing, except in DropSettlementKey,
// ForgetSigned, LockEarnings, and Keep with PutBack.
package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/usageseal"
)

// Databases are the databases of billing-ledger and settlement.
type Databases struct{ pool *pgxpool.Pool }

// Open makes a pool of connections to the superuser's URL. It does not dial.
func Open(ctx context.Context, url string) (*Databases, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("open the books: the database's URL cannot be read") // the error would show its password
	}
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the books: %w", err)
	}
	return &Databases{pool}, nil
}

// Close ends the connections.
func (b *Databases) Close() { b.pool.Close() }

// Left is the work that has yet to happen.
type Left struct {
	// Holds counts the open holds. Reviews counts the reviews of open holds that are due or
	// under way. Unbalanced counts the requests on which billing-ledger and settlement
	// disagree. Overcharged counts the answers that broke off and are charged beyond what
	// came: the ledger gives the rest back. Slices counts those that are open, and those that were stranded
	// and whose time is over.
	Holds, Reviews, Unbalanced, Overcharged, Slices int64
	// Quarantined counts the events that a person must look at.
	Quarantined int64
}

// None reports whether nothing is left. Events in quarantine stay there.
func (l Left) None() bool { return l.Holds+l.Reviews+l.Unbalanced+l.Overcharged+l.Slices == 0 }

// Left counts the work that has yet to happen.
func (b *Databases) Left(ctx context.Context) (Left, error) {
	var l Left
	err := b.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM billing.hold WHERE state = 'open'),
		(SELECT count(*) FROM billing.orphan_review r JOIN billing.hold h USING (request_id)
			WHERE h.state = 'open' AND r.next_at IS NOT NULL),
		(SELECT count(*) FROM billing.usage_settlement s
			FULL JOIN (SELECT * FROM settlement.earning WHERE settled) e USING (day, request_id)
			WHERE s.payout IS DISTINCT FROM e.payout_nano_usd),
		(SELECT count(*) FROM billing.request_report w JOIN billing.usage_settlement s USING (request_id)
			WHERE w.outcome = 'failed' AND w.committed_attempt > 0 AND w.metered_prompt IS NULL
				AND s.evidence_source <> 'gateway' AND s.source = 'payg'
				AND s.charged > round(least(w.relayed_tokens, w.relayed_bytes, s.completion_tokens)
					* s.output_rate::numeric / 1000) + 1
				AND NOT EXISTS (SELECT FROM billing.entry e WHERE e.business_id = w.request_id::text
					AND e.kind IN ('request_refund', 'goodwill_refund', 'broken_answer'))),
		(SELECT count(*) FROM billing.slice WHERE state = 'open' OR reclaim_at <= now()),
		(SELECT count(*) FROM billing.quarantine) + (SELECT count(*) FROM settlement.quarantine)`).
		Scan(&l.Holds, &l.Reviews, &l.Unbalanced, &l.Overcharged, &l.Slices, &l.Quarantined)
	if err != nil {
		return l, fmt.Errorf("count the work that is left: %w", err)
	}
	return l, nil
}

// Unbatched is what settlement has yet to do about days that are over.
type Unbatched struct {
	// Days counts the days with earnings that are not batched, Shares those that are not posted, and Blocked the
	// providers that a witness blocks.
	Days, Shares, Blocked int64
	// Filled are the days that wait for an operator, because many of their lines came from the ledger.
	Filled []string
}

// None reports whether nothing is left.
func (u Unbatched) None() bool { return u.Days+u.Shares+u.Blocked == 0 }

// String says what is left.
func (u Unbatched) String() string {
	return fmt.Sprintf("%d days not batched (%v with many lines of the ledger alone), %d shares not posted, "+
		"%d providers blocked", u.Days, u.Filled, u.Shares, u.Blocked)
}

// Unbatched counts what settlement has yet to do about the days that are over by the database's clock.
func (b *Databases) Unbatched(ctx context.Context) (u Unbatched, err error) {
	err = b.pool.QueryRow(ctx, `WITH days AS (
			SELECT DISTINCT (settled_at AT TIME ZONE 'UTC')::date AS day FROM billing.usage_settlement WHERE payout > 0)
		SELECT (SELECT count(*) FROM days WHERE day < (clock_timestamp() AT TIME ZONE 'UTC')::date AND NOT EXISTS (
				SELECT FROM settlement.batch_day b WHERE b.day = days.day AND committed_at IS NOT NULL)),
			(SELECT count(*) FROM settlement.batch_share WHERE posted IS NULL),
			(SELECT count(*) FROM settlement.batch_block k WHERE NOT EXISTS (SELECT FROM settlement.batch_unblock l
				WHERE (l.day, l.provider_id, l.cause) = (k.day, k.provider_id, k.cause))),
			(SELECT coalesce(array_agg(day::text), '{}') FROM settlement.batch_day d WHERE committed_at IS NULL
				AND NOT EXISTS (SELECT FROM settlement.batch_allowance a WHERE a.day = d.day)
				AND (SELECT count(*) FILTER (WHERE e.evidence_source = 'ledger') * 100 > count(*)
					FROM settlement.batch_line l JOIN settlement.earning e ON e.day = l.request_day
						AND e.request_id = l.request_id WHERE l.day = d.day))`).
		Scan(&u.Days, &u.Shares, &u.Blocked, &u.Filled)
	if err != nil {
		return u, fmt.Errorf("count days that are not batched: %w", err)
	}
	return u, nil
}

// Payable is what a provider may be paid, in nano-USD, and the time of the database.
func (b *Databases) Payable(ctx context.Context, provider string) (nano int64, now time.Time, err error) {
	err = b.pool.QueryRow(ctx, `SELECT coalesce(sum(amount), 0)::bigint, clock_timestamp() FROM billing.posting
		WHERE account_kind = 'l:provider:payable' AND owner_id = $1::uuid AND asset = 'usd'`, provider).Scan(&nano, &now)
	if err != nil {
		return 0, now, fmt.Errorf("read what provider %s may be paid: %w", provider, err)
	}
	return nano, now, nil
}

// Earners counts the providers that have at least so many nano-USD of accrued and payable earnings.
func (b *Databases) Earners(ctx context.Context, least int64) (n int, err error) {
	err = b.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT provider_id FROM (
			SELECT provider_id, payout AS nano FROM billing.usage_settlement WHERE source = 'payg'
			UNION ALL SELECT owner_id, amount FROM billing.posting WHERE asset = 'usd'
				AND account_kind IN ('l:provider:accrued', 'l:provider:payable')) parts
		GROUP BY provider_id HAVING sum(nano) >= $1) sums`, least).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read what providers have earned: %w", err)
	}
	return n, nil
}

// Unpaid counts what settlement has yet to do about payouts: those that have not ended, and calls without an end.
// Parts counts what penalties have yet to take, Refunds those of collateral that are due, and Custody the events of
// collateral that the books do not know. Halts counts the halts of chains that an operator has to lift.
type Unpaid struct{ Payouts, Calls, Parts, Refunds, Custody, Halts int64 }

// None reports whether nothing is left but refunds, for which no night waits.
func (u Unpaid) None() bool { return u.Payouts+u.Calls+u.Parts+u.Custody == 0 }

// Unpaid counts what settlement has yet to do about payouts.
func (b *Databases) Unpaid(ctx context.Context) (u Unpaid, err error) {
	err = b.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM settlement.payout WHERE state NOT IN ('confirmed', 'failed', 'cancelled')),
		(SELECT count(*) FROM settlement.chain_call c WHERE NOT EXISTS (SELECT FROM settlement.call_end e
			WHERE (e.chain_id, e.sender, e.nonce) = (c.chain_id, c.sender, c.nonce))),
		(SELECT count(*) FROM settlement.penalty_part WHERE state IN ('opened', 'escrowed', 'appealed')
			OR state = 'executed' AND ended_entry IS NULL),
		(SELECT count(*) FROM settlement.collateral_refund WHERE state = 'paying'
			OR state = 'asked' AND due_at <= clock_timestamp()),
		(SELECT count(*) FROM settlement.position_event WHERE units <> 0 AND entry_id IS NULL),
		(SELECT count(*) FROM settlement.sending_halt WHERE lifted_at IS NULL)`).Scan(&u.Payouts, &u.Calls, &u.Parts,
		&u.Refunds, &u.Custody, &u.Halts)
	if err != nil {
		return u, fmt.Errorf("count payouts that have not ended: %w", err)
	}
	return u, nil
}

// Refunding counts the refunds of collateral that are due, and not paid.
func (b *Databases) Refunding(ctx context.Context) (int64, error) {
	u, err := b.Unpaid(ctx)
	return u.Refunds, err
}

// Leaving reports whether a provider has asked for its collateral, and is not being paid.
func (b *Databases) Leaving(ctx context.Context, provider string) (leaving bool, err error) {
	err = b.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM settlement.collateral_refund WHERE provider_id = $1::uuid
		AND state = 'asked')`, provider).Scan(&leaving)
	if err != nil {
		return false, fmt.Errorf("read the refunds of %s: %w", provider, err)
	}
	return leaving, nil
}

// Staked counts the positions of collateral that are in the books.
func (b *Databases) Staked(ctx context.Context) (n int64, err error) {
	err = b.pool.QueryRow(ctx, `SELECT count(*) FROM settlement.position p WHERE free > 0 AND EXISTS (
		SELECT FROM settlement.position_event e WHERE (e.chain_id, e.subject, e.depositor) = (p.chain_id, p.subject,
			p.depositor) AND e.entry_id IS NOT NULL)`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count positions: %w", err)
	}
	return n, nil
}

// Unbooked counts the payments by card, by their sessions, that the books do not have, and how many fewer than so many
// went back.
func (b *Databases) Unbooked(ctx context.Context, sessions []string, back int) (n int64, err error) {
	err = b.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM unnest($1::text[]) s WHERE NOT EXISTS (
			SELECT FROM billing.entry WHERE kind = 'collateral_card' AND business_id = s)) +
		greatest(0, $2 - (SELECT count(*) FROM billing.entry WHERE kind = 'collateral_card_reversed'))`, sessions,
		back).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count payments by card: %w", err)
	}
	return n, nil
}

// Unescrowed counts what penalties have yet to move into escrow.
func (b *Databases) Unescrowed(ctx context.Context) (n int64, err error) {
	err = b.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM settlement.penalty_part WHERE state = 'opened') +
		(SELECT count(*) FROM settlement.penalty p WHERE state = 'proposed' AND NOT EXISTS (
			SELECT FROM settlement.penalty_part t WHERE t.penalty_id = p.penalty_id))`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count parts of penalties: %w", err)
	}
	return n, nil
}

// Ended reports whether settlement has stored the end of the call that a transaction made. The hash
// is hexadecimal, with its prefix.
func (b *Databases) Ended(ctx context.Context, hash string) (ended bool, err error) {
	err = b.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM settlement.call_end
		WHERE '0x' || encode(hash, 'hex') = $1)`, hash).Scan(&ended)
	if err != nil {
		return false, fmt.Errorf("read the end of a call: %w", err)
	}
	return ended, nil
}

// ForgetSigned takes away everything that the signer has written down of what it signed, as the loss of its disk would.
func (b *Databases) ForgetSigned(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{`SET LOCAL session_replication_role = replica`, `DELETE FROM signer.signed_fee`,
			`DELETE FROM signer.signed_nonce`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take the signer's record away: %w", err)
	}
	return nil
}

// Now reads the database's clock.
func (b *Databases) Now(ctx context.Context) (now time.Time, err error) {
	if err := b.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

// Waiting counts the requests that were admitted longer than an age ago and are open, and
// the requests whose settled line or earning line is from before a time and stands alone.
func (b *Databases) Waiting(ctx context.Context, age time.Duration, before time.Time) (int64, error) {
	var n int64
	err := b.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM billing.hold WHERE state = 'open' AND admitted_at < now() - $1::interval) +
		(SELECT count(*) FROM billing.usage_settlement s
			FULL JOIN (SELECT * FROM settlement.earning WHERE settled) e USING (day, request_id)
			WHERE s.request_id IS NULL AND e.recorded_at < $2 OR e.request_id IS NULL AND s.settled_at < $2)`,
		age, before).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count waiting requests: %w", err)
	}
	return n, nil
}

// Unreported counts the requests under way that were admitted before a time and whose end
// no gateway has reported.
func (b *Databases) Unreported(ctx context.Context, before time.Time) (int64, error) {
	var n int64
	err := b.pool.QueryRow(ctx, `SELECT count(*) FROM billing.hold h WHERE state = 'open' AND admitted_at < $1
		AND NOT EXISTS (SELECT FROM billing.request_report w WHERE w.request_id = h.request_id)`, before).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count unreported requests: %w", err)
	}
	return n, nil
}

// Dump writes all rows of a schema in the form of billing-ledger's export: JSON lines
// from one snapshot, the first with the schema's name, the last with the number of rows.
// Hashes of keys are left out.
func (b *Databases) Dump(ctx context.Context, schema string, out io.Writer) error {
	w := bufio.NewWriterSize(out, 64<<10)
	rows := 0
	err := pgx.BeginTxFunc(ctx, b.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			if err := head(ctx, tx, schema, w); err != nil {
				return err
			}
			tables, err := tables(ctx, tx, schema)
			if err != nil {
				return err
			}
			for _, table := range tables {
				n, err := dump(ctx, tx, w, schema, table)
				if err != nil {
					return fmt.Errorf("dump %s.%s: %w", schema, table, err)
				}
				rows += n
			}
			return nil
		})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, `{"end":true,"rows":%d}`+"\n", rows)
	return w.Flush()
}

func head(ctx context.Context, tx pgx.Tx, schema string, w io.Writer) error {
	var line string
	err := tx.QueryRow(ctx, `SELECT json_build_object('export', 1, 'at', now(), 'schema', $1::text, 'seal', '')::text`,
		schema).Scan(&line)
	if err != nil {
		return fmt.Errorf("begin a dump: %w", err)
	}
	_, err = fmt.Fprintln(w, line)
	return err
}

// tables are the tables of a schema, without partitions and the migrations' own.
func tables(ctx context.Context, tx pgx.Tx, schema string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.relname NOT LIKE 'schema\_%' ORDER BY 1`, schema)
	if err != nil {
		return nil, fmt.Errorf("list the tables of %s: %w", schema, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the tables of %s: %w", schema, err)
	}
	return names, nil
}

func dump(ctx context.Context, tx pgx.Tx, w io.Writer, schema, table string) (int, error) {
	secret := []string{"password_hash", "token_sha256", "secret", "sealed"}
	if table == "consumer_key" {
		secret = append(secret, "hash") // elsewhere it is a transaction's
	}
	rows, err := tx.Query(ctx, `SELECT json_build_object('table', $1::text, 'row', to_jsonb(t) - $2::text[])::text
		FROM `+pgx.Identifier{schema, table}.Sanitize()+` t`, table, secret)
	if err != nil {
		return 0, err
	}
	var line string
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&line}, func() error {
		n++
		_, err := fmt.Fprintln(w, line)
		return err
	})
	return n, err
}

// DropSettlementKey drops the primary key of billing-ledger's settled requests, for a
// planted fault.
func (b *Databases) DropSettlementKey(ctx context.Context) error {
	if _, err := b.pool.Exec(ctx,
		`ALTER TABLE billing.usage_settlement DROP CONSTRAINT usage_settlement_pkey CASCADE`); err != nil {
		return fmt.Errorf("drop the key of settled requests: %w", err)
	}
	return nil
}

// UsageKey is the last key that a hub has handed over.
func (b *Databases) UsageKey(ctx context.Context, hub string) (usageseal.Key, error) {
	var id, secret []byte
	err := b.pool.QueryRow(ctx,
		`SELECT key_id, secret FROM billing.usage_key WHERE hub_id = $1 ORDER BY created_at DESC LIMIT 1`, hub).Scan(&id,
		&secret)
	if err != nil {
		return usageseal.Key{}, fmt.Errorf("read the key of %s: %w", hub, err)
	}
	return usageseal.ParseKey(id, secret)
}

// Lines are the rows of billing-ledger and settlement for a request, a text for each row.
func (b *Databases) Lines(ctx context.Context, request string) ([]string, error) {
	rows, err := b.pool.Query(ctx, `SELECT to_jsonb(s)::text FROM billing.usage_settlement s WHERE request_id = $1::uuid
		UNION ALL SELECT to_jsonb(e)::text FROM settlement.earning_line e WHERE request_id = $1::uuid ORDER BY 1`, request)
	if err != nil {
		return nil, fmt.Errorf("read the lines of %s: %w", request, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the lines of %s: %w", request, err)
	}
	return lines, nil
}

// MaxCompletion is the largest completion of any line of a request, or of a row that
// takes a line's place; 0 for none.
func (b *Databases) MaxCompletion(ctx context.Context, request string) (tokens int64, err error) {
	err = b.pool.QueryRow(ctx, `SELECT greatest(
		(SELECT max(completion_tokens) FROM billing.usage_settlement WHERE request_id = $1::uuid),
		(SELECT max(completion_tokens) FROM settlement.earning_line WHERE request_id = $1::uuid),
		(SELECT max(completion_tokens) FROM settlement.earning_correction WHERE request_id = $1::uuid),
		(SELECT max(completion_tokens) FROM settlement.earning_ruling WHERE request_id = $1::uuid), 0)`,
		request).Scan(&tokens)
	if err != nil {
		return 0, fmt.Errorf("read the lines of %s: %w", request, err)
	}
	return tokens, nil
}

// Quarantined reports whether an event lies in the quarantines, as forged.
func (b *Databases) Quarantined(ctx context.Context, event []byte) (ledger, settlement bool, err error) {
	err = b.pool.QueryRow(ctx, `SELECT
		EXISTS (SELECT FROM billing.quarantine WHERE payload = $1 AND reason = 'forged'),
		EXISTS (SELECT FROM settlement.quarantine WHERE payload = $1 AND reason LIKE 'forged%')`, event).Scan(&ledger,
		&settlement)
	if err != nil {
		return false, false, fmt.Errorf("read the quarantines: %w", err)
	}
	return ledger, settlement, nil
}

// Refused reports whether a request has a hold, and whether billing-ledger has set an event aside as usage
// of a request that it does not know.
func (b *Databases) Refused(ctx context.Context, request string, event []byte) (held, refused bool, err error) {
	err = b.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM billing.hold WHERE request_id = $1::uuid),
		EXISTS (SELECT FROM billing.quarantine WHERE payload = $2 AND reason = 'unknown_request')`, request, event).
		Scan(&held, &refused)
	if err != nil {
		return false, false, fmt.Errorf("read what is known of request %s: %w", request, err)
	}
	return held, refused, nil
}

// Compared is the result of a comparison of billing-ledger's settled requests with
// settlement's lines.
type Compared struct {
	// Requests counts the requests that at least one of them knows.
	Requests int64
	// Differing are the requests that one of them does not know, or on which the two
	// disagree in provider, attempt, model, price version, unit, tokens or payout. Each
	// is a text with both rows.
	Differing []string
}

// Compare compares every field that billing-ledger and settlement both keep of a request,
// in both directions. A ledger's correction of a line counts in the line's place. An
// excluded line does not count.
func (b *Databases) Compare(ctx context.Context) (Compared, error) {
	rows, err := b.pool.Query(ctx, `
		WITH ledger AS (
			SELECT day, request_id, provider_id, attempt, model_id, price_version_id, unit, prompt_tokens,
				completion_tokens, payout
			FROM billing.usage_settlement
		), line AS (
			SELECT day, request_id, provider_id, attempt, model_id, price_version_id, unit, prompt_tokens, completion_tokens,
				payout_nano_usd AS payout
			FROM settlement.earning WHERE settled
		)
		SELECT CASE WHEN ledger IS DISTINCT FROM line
			THEN format('billing-ledger has %s, settlement has %s', coalesce(to_jsonb(ledger)::text, 'nothing'),
				coalesce(to_jsonb(line)::text, 'nothing')) END
		FROM ledger FULL JOIN line USING (day, request_id)`)
	if err != nil {
		return Compared{}, fmt.Errorf("compare ledger and lines: %w", err)
	}
	var out Compared
	var differs *string
	_, err = pgx.ForEachRow(rows, []any{&differs}, func() error {
		out.Requests++
		if differs != nil {
			out.Differing = append(out.Differing, *differs)
		}
		return nil
	})
	if err != nil {
		return Compared{}, fmt.Errorf("compare ledger and lines: %w", err)
	}
	return out, nil
}

// LockEarnings locks settlement's lines until the returned function is called. Nobody can
// write or read them meanwhile.
func (b *Databases) LockEarnings(ctx context.Context) (release func(context.Context) error, err error) {
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock the earning lines: %w", err)
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE settlement.earning_line IN ACCESS EXCLUSIVE MODE`); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the earning lines: %w", err), tx.Rollback(ctx))
	}
	return tx.Rollback, nil
}
