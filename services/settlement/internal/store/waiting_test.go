package store_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/penalty"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// ended fills the tables with work that is over: 8,000 rows of each kind, and one that waits of some. The triggers are
// off, so what they would have marked is written as they mark it.
const ended = `
SET LOCAL session_replication_role = replica;
CREATE TEMP TABLE n ON COMMIT DROP AS SELECT i, sha256(i::text::bytea) AS h, md5(i::text)::uuid AS id,
	md5('provider ' || i % 500)::uuid AS provider, now() - interval '300 days' + i * interval '50 minutes' AS at
	FROM generate_series(1, 8000) AS i;
INSERT INTO provider (provider_id) SELECT DISTINCT provider FROM n;
INSERT INTO sender VALUES (8453, decode(repeat('01', 20), 'hex'), 'payout', 8001);
INSERT INTO chain_call SELECT 8453, decode(repeat('01', 20), 'hex'), i,
	CASE WHEN i % 4 = 0 THEN 'sweep' ELSE 'payout' END, id, decode(repeat('02', 20), 'hex'), 0, '',
	21000, h, at, i < 8000 FROM n;
INSERT INTO signed_tx SELECT h, 8453, decode(repeat('01', 20), 'hex'), i, 0, h, '\x02', 9, 1, at FROM n;
INSERT INTO call_end SELECT 8453, decode(repeat('01', 20), 'hex'), i, 'succeeded', h, i, h, 5000000000, at, i < 7999
	FROM n WHERE i < 8000;
INSERT INTO call_gas SELECT 8453, decode(repeat('01', 20), 'hex'), i, 5, 1000000000, 'test', at, false, id
	FROM n WHERE i < 7999;
INSERT INTO chain_unbooked VALUES (8453, 5000000000);
INSERT INTO payout (payout_id, provider_id, chain_id, gross_nano_usd, fee_nano_usd, address, state, revision,
	requested_at, previous_at, reserved_entry, final_entry, amount, changed_at)
	SELECT id, provider, 8453, 10000000000, 1000000000, decode(repeat('02', 20), 'hex'), 'confirmed', 5,
	at, at - interval '1 hour', id, id, 9, at FROM n WHERE i < 8000;
INSERT INTO conversion (conversion_id, provider_id, account_id, nano_usd, requested_at, number, bound_at,
	entry_id) SELECT id, provider, id, 1, at, i, CASE WHEN i > 60 THEN at - interval '1 hour' END,
	CASE WHEN i < 8000 THEN id END FROM n;
INSERT INTO deposit_address SELECT i, id, substr(h, 1, 20), at FROM n;
INSERT INTO transfer (chain_id, tx_hash, place, block, block_hash, at, token, sender, deposit_index, amount,
	units, dust, state, decision, account_id, entry_id)
	SELECT 8453, h, 0, i, h, at, '8453:usdc', substr(h, 1, 20), i, 300000000, 300000000, 0, 'credited', 'credit', id, id
	FROM n;
INSERT INTO sweep (chain_id, deposit_index, token, amount, day, state, tx_hash, planned_at)
	SELECT 8453, i, '8453:usdc', 300000000, at::date, 'done', h, at FROM n WHERE i < 8000;
INSERT INTO deposit_balance SELECT i, 8453, '8453:usdc', 300000000, 300000000, 0, 0,
	CASE WHEN i < 8000 THEN 300000000 ELSE 0 END FROM n;
INSERT INTO chain_cursor (chain_id, block, block_hash, fence, again) VALUES (8453, 8000, sha256(''), 1, 8000);
INSERT INTO penalty (penalty_id, provider_id, model_id, kind, share_basis_points, removes, summary,
	evidence_hash, state, revision, opened_at, appeal_until, executed_at)
	SELECT id, provider, 'm', 'benchmark', 1, false, 'x', h, 'executed', 2, at, at + interval '48 hours',
	at + interval '49 hours' FROM n;
INSERT INTO penalty_part (part_id, penalty_id, provider_id, chain_id, depositor, amount, units, state, appeal_until,
	lapses_at, due_at, ended_entry) SELECT h, id, provider, 8453, substr(h, 1, 20), 1, 1, 'executed', at, at, at, id
		FROM n;
INSERT INTO collateral_refund SELECT id, provider, 'paid', at, at + interval '7 days', at + interval '8 days',
	at + interval '9 days', at, at - interval '24 hours' FROM n;
INSERT INTO collateral_refund_part (part_id, refund_id, checkout_id, cents, state, due_at, asked_entry, paid_entry)
	SELECT id, id, id, 1, 'done', at, id, id FROM n;
INSERT INTO position_event (chain_id, number, event, tx, place, kind, subject, depositor, provider_id, amount, at,
	free_after, escrow_after, units, entry_id)
	SELECT 8453, i, i, h, 0, 'refunded', uuid_send(id) || substr(h, 1, 16), substr(h, 1, 20), id, 1, at, 0, 0, -1, id
	FROM n;
INSERT INTO position SELECT 8453, uuid_send(id) || substr(h, 1, 16), substr(h, 1, 20), id, 0, 0, NULL, NULL, 0,
		false, i FROM n;
INSERT INTO batch_day SELECT DISTINCT at::date, sha256(''), 1, at::date, 0, at::date FROM n;
INSERT INTO batch SELECT DISTINCT at::date, 8453, sha256(''), 1, 1 FROM n;
INSERT INTO batch_share SELECT at::date, 8453, i, id, substr(h, 1, 20), 1, 0, false, 1, 1, h, '{}', h, 1, id, at,
	decode(repeat('03', 65), 'hex'), substr(h, 1, 20), at FROM n;
INSERT INTO batch_block SELECT at::date, id, 'lines', 1, at, true FROM n;
INSERT INTO batch_unblock SELECT at::date, id, 'lines', 'platform', 'mended', at FROM n;
INSERT INTO batch_account SELECT id, 'l:provider:plan_held', to_char(now(), 'YYYY-MM') FROM n;
INSERT INTO plan_month SELECT DISTINCT to_char(at, 'YYYY-MM'), at::date, 0, 0, 0, 0, now() FROM n ON CONFLICT DO
		NOTHING;
INSERT INTO provider_suspension (provider_id, cause, holds, told_at) SELECT id, 'refund', false, at FROM n;
INSERT INTO provider_collateral (provider_id, confirmed, source, told_at) SELECT id, true, 'contract', at FROM n;
INSERT INTO sending_halt SELECT 8453, 'reserves', at, 'x', at, 'platform', 'x' FROM n`

// most is how many rows a look may read in all tables and indexes that 8,000 ended ones are in.
const most = 600

// counted counts the rows that one connection reads of tables and indexes.
type counted struct {
	pool *pgxpool.Pool
}

func newCounted(t *testing.T) counted {
	t.Helper()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	owner := pgtest.Owner(t, pool)
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it is committed, or the test has failed
	for i, sql := range strings.Split(ended, ";\n") {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("statement %d: %v", i+1, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Exec(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	cfg := pool.Config()
	cfg.MinConns, cfg.MaxConns = 0, 1
	one, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return counted{one}
}

// read returns what the connection has read up to now.
func (c counted) read(t *testing.T) (rows int64) {
	t.Helper()
	if _, err := c.pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`); err != nil {
		t.Fatal(err)
	}
	if err := c.pool.QueryRow(t.Context(), `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)
		+ (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestNoLookReadsWhatIsOver has every loop look, with 8,000 of everything over.
func TestNoLookReadsWhatIsOver(t *testing.T) {
	t.Parallel()
	c := newCounted(t)
	for name, look := range looks(store.New(c.pool)) {
		before := c.read(t)
		found, err := look(t.Context())
		switch rows := c.read(t) - before; {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case rows > most:
			t.Errorf("%s: got %d rows read, want at most %d", name, rows, most)
		}
		if want, ok := waiting[name]; ok && found != want {
			t.Errorf("%s: got %d that wait, want %d", name, found, want)
		}
	}
}

// waiting is how many of each wait.
var waiting = map[string]int{"calls": 1, "costs": 1, "sweeps to plan": 1, "conversions": 1, "deposits to decide": 0,
	"parts of penalties": 0, "addresses to read": 1}

// each has a look say how many it found.
func each[T any](list []T, err error) (int, error) { return len(list), err }

// one has a look say nothing but its error.
func one[T any](_ T, err error) (int, error) { return 0, err }

// looks are what loops ask of the store again and again.
func looks(st *store.Store) map[string]func(context.Context) (int, error) {
	all := map[string]func(context.Context) (int, error){}
	maps.Copy(all, looksAtMoney(st))
	maps.Copy(all, looksAtDeposits(st))
	maps.Copy(all, looksAtCollateral(st))
	maps.Copy(all, looksAtBatches(st))
	return all
}

const atMost = 100

func looksAtMoney(st *store.Store) map[string]func(context.Context) (int, error) {
	calls, payouts, reserves := store.Sending{Store: st}, store.Payouts{Store: st}, store.Reserves{Store: st}
	return map[string]func(context.Context) (int, error){
		"calls": func(ctx context.Context) (int, error) {
			return each(calls.Waiting(ctx, chain.Base, atMost))
		},
		"costs":            func(ctx context.Context) (int, error) { return each(calls.GasDue(ctx, atMost)) },
		"halts":            func(ctx context.Context) (int, error) { return each(calls.Halts(ctx)) },
		"whether halted":   func(ctx context.Context) (int, error) { return one(calls.Halted(ctx, chain.Base)) },
		"payouts":          func(ctx context.Context) (int, error) { return each(payouts.Open(ctx, atMost)) },
		"payouts, counted": func(ctx context.Context) (int, error) { return one(payouts.Backlog(ctx)) },
		"in flight":        func(ctx context.Context) (int, error) { return one(payouts.InFlight(ctx, chain.Base)) },
		"conversions":      func(ctx context.Context) (int, error) { return each(payouts.Conversions(ctx, atMost)) },
		"ended lately": func(ctx context.Context) (int, error) {
			return each(calls.Late(ctx, chain.Base, sending.Place{}, atMost))
		},
		"leaving":          func(ctx context.Context) (int, error) { return each(reserves.Leaving(ctx, chain.Base)) },
		"gas not in books": func(ctx context.Context) (int, error) { return one(reserves.Gas(ctx, chain.Base)) },
		"staked":           func(ctx context.Context) (int, error) { return one(reserves.Staked(ctx, chain.Base)) },
	}
}

func looksAtDeposits(st *store.Store) map[string]func(context.Context) (int, error) {
	deposits, sweeps, reserves := store.Deposits{Store: st}, store.Sweeps{Store: st}, store.Reserves{Store: st}
	usdc := chain.Base.Token(chain.USDC)
	return map[string]func(context.Context) (int, error){
		"deposits to decide": func(ctx context.Context) (int, error) { return each(deposits.Open(ctx, -1, atMost)) },
		"deposits to post":   func(ctx context.Context) (int, error) { return each(deposits.Due(ctx, atMost)) },
		"deposits, counted":  func(ctx context.Context) (int, error) { return one(deposits.Backlog(ctx)) },
		"holdings": func(ctx context.Context) (int, error) {
			return each(deposits.Holdings(ctx, usdc, 7_998, 100, 10))
		},
		"addresses to read": func(ctx context.Context) (int, error) {
			return each(reserves.Unswept(ctx, usdc, 0, atMost))
		},
		"sweeps to plan": func(ctx context.Context) (int, error) {
			return sweeps.Plan(ctx, chain.Base, usdc, chain.NewAmount(100_000_000))
		},
		"sweeps to send":  func(ctx context.Context) (int, error) { return each(sweeps.Planned(ctx, atMost)) },
		"sweeps that end": func(ctx context.Context) (int, error) { return each(sweeps.Sent(ctx, atMost)) },
		"sweeps, counted": func(ctx context.Context) (int, error) { return one(sweeps.Backlog(ctx)) },
	}
}

func looksAtCollateral(st *store.Store) map[string]func(context.Context) (int, error) {
	positions := store.Positions{Store: st, Terms: collateralTerms()}
	parts, refunds := store.Parts{Positions: positions}, store.Refunds{Positions: positions}
	hub, penalties := store.Collateral{Store: st}, store.Penalties{Store: st, Terms: collateralTerms()}
	return map[string]func(context.Context) (int, error){
		"collateral, counted": func(ctx context.Context) (int, error) { return one(positions.Backlog(ctx)) },
		"events to post": func(ctx context.Context) (int, error) {
			return each(positions.Unposted(ctx, chain.Base, atMost))
		},
		"cards":              func(ctx context.Context) (int, error) { return each(positions.Stale(ctx, atMost)) },
		"parts of penalties": func(ctx context.Context) (int, error) { return each(parts.Due(ctx, time.Hour, atMost)) },
		"appeals on chains":  func(ctx context.Context) (int, error) { return each(parts.AppealedOnChain(ctx, atMost)) },
		"refunds": func(ctx context.Context) (int, error) {
			return each(refunds.DueRefunds(ctx, time.Hour, atMost))
		},
		"parts of refunds": func(ctx context.Context) (int, error) {
			return each(refunds.DueParts(ctx, time.Hour, atMost))
		},
		"penalties": func(ctx context.Context) (int, error) {
			return each(penalties.Due(ctx, penalty.Place{}, atMost))
		},
		"penalties, counted": func(ctx context.Context) (int, error) { return one(penalties.Backlog(ctx)) },
		"facts":              func(ctx context.Context) (int, error) { return each(hub.Pending(ctx, time.Hour, atMost)) },
		"suspensions": func(ctx context.Context) (int, error) {
			return each(hub.PendingSuspensions(ctx, time.Hour, atMost))
		},
		"withdrawals": hub.WithdrawDevelopment,
	}
}

func looksAtBatches(st *store.Store) map[string]func(context.Context) (int, error) {
	batches := store.Batches{Store: st}
	return map[string]func(context.Context) (int, error){
		"the next day": func(ctx context.Context) (int, error) { return one(batches.Place(ctx, time.Time{})) },
		"shares to post": func(ctx context.Context) (int, error) {
			return each(batches.Unposted(ctx, batch.SharePlace{}, atMost))
		},
		"statements to sign": func(ctx context.Context) (int, error) {
			return each(batches.Unsigned(ctx, batch.SharePlace{}, atMost))
		},
		"batches, counted": func(ctx context.Context) (int, error) { return one(batches.Backlog(ctx)) },
		"blocks":           func(ctx context.Context) (int, error) { return each(batches.Blocks(ctx, atMost)) },
		"months":           func(ctx context.Context) (int, error) { return each(batches.DueMonths(ctx)) },
	}
}
