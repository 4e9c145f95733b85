package store_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// BenchmarkLedger has the figures that the ledger is held to, each on a server
// that flushes to disk: what one replica admits by way of the group commit and
// settles in batches, what three replicas admit for one account, and what an
// admission costs beside so many accounts and settled requests. Each is taken
// over a fixed number of requests, so -benchtime 1x says all; BENCH_ALL=1 adds
// the largest tables, which take minutes to fill.
func BenchmarkLedger(b *testing.B) {
	b.Run("admissions", func(b *testing.B) {
		e, _ := durable(b)
		for _, callers := range []int{16, 64, 128} {
			b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
				load{replicas: 1, accounts: 32, callers: callers}.run(b, e)
			})
		}
	})
	b.Run("settles", func(b *testing.B) {
		e, _ := durable(b)
		settles(b, e)
	})
	b.Run("hot account", func(b *testing.B) {
		e, _ := durable(b)
		load{replicas: 3, accounts: 1, callers: 192}.run(b, e)
	})
	b.Run("curve", func(b *testing.B) {
		e, _ := durable(b)
		points := []struct{ accounts, lines int }{{1e3, 0}, {1e4, 1e4}, {1e5, 1e5}}
		if os.Getenv("BENCH_ALL") == "1" {
			points = append(points, []struct{ accounts, lines int }{{1e6, 1e6}, {1e6, 1e7}}...)
		}
		for _, p := range points {
			e.grow(b, p.accounts, p.lines)
			b.Run(fmt.Sprintf("accounts=%d/lines=%d", p.accounts, p.lines), func(b *testing.B) {
				load{replicas: 1, accounts: 1000, callers: 64}.run(b, e)
			})
		}
	})
}

// load is how many callers ask for how many accounts, evenly spread over
// replicas.
type load struct{ replicas, accounts, callers int }

// asked is how many requests one run of a load asks for.
const asked = 40_000

func (l load) run(b *testing.B, e *env) {
	keys := e.richest(b, l.accounts)
	admitters := make([]*hold.Admitter, l.replicas)
	for i, pool := range e.pools(b, l.replicas, nil) {
		a, stop := admitterOn(b, store.New(pool, unlimited, terms), e.price, 1)
		defer stop()
		admitters[i] = a
	}
	// The pages of these accounts are read and logged whole for the first time.
	l.ask(b, admitters, keys, asked/4)
	var took []time.Duration
	spent := serverCPU(b, e)
	for b.Loop() {
		begun := time.Now()
		took = l.ask(b, admitters, keys, asked)
		b.ReportMetric(asked/time.Since(begun).Seconds(), "admissions/s")
	}
	b.ReportMetric(float64((serverCPU(b, e)-spent).Microseconds())/float64(b.N*asked), "server-µs/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[asked*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// ask asks for n requests and returns how long each took.
func (l load) ask(b *testing.B, admitters []*hold.Admitter, keys []ids.KeyID, n int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for caller := range l.callers {
		a := admitters[caller%l.replicas]
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				order := hold.AdmitRequest{Request: request(b), Key: keys[i%l.accounts], Model: "acme/large",
					MaxCompletionTokens: 1}
				at := time.Now()
				if _, err := a.Admit(b.Context(), order); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(at)
			}
		})
	}
	all.Wait()
	return took
}

func settles(b *testing.B, e *env) {
	const batch = 200
	keys := e.richest(b, 32)
	for b.Loop() {
		var deliveries []usage.Delivery
		for len(deliveries) < asked {
			claims := make([]hold.Reservation, batch)
			for i := range claims {
				claims[i] = e.reservation(b, consumer{key: keys[i%len(keys)]}, 2)
			}
			e.admit(b, claims...)
			for _, c := range claims {
				deliveries = append(deliveries, e.served(b, c, 2))
			}
		}
		begun := time.Now()
		for part := range slices.Chunk(deliveries, batch) {
			e.settle(b, usage.Settled, part...)
		}
		b.ReportMetric(asked/time.Since(begun).Seconds(), "settles/s")
	}
	b.ReportMetric(0, "ns/op")
}

// richest are keys of accounts with more credit than any load spends.
func (e *env) richest(b *testing.B, n int) []ids.KeyID {
	b.Helper()
	var keys []ids.KeyID
	rows, err := e.owner.Query(b.Context(), `SELECT k.id FROM consumer_key k JOIN wallet w USING (account_id)
		WHERE w.posted - w.held > $1 ORDER BY random() LIMIT $2`, int64(100_000*money.USD), n)
	if err != nil {
		b.Fatal(err)
	}
	for rows.Next() {
		var id [16]byte
		if err := rows.Scan(&id); err != nil {
			b.Fatal(err)
		}
		keys = append(keys, id)
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	for len(keys) < n {
		keys = append(keys, e.consumer(b, 1_000_000*money.USD).key)
	}
	return keys
}

// grow fills the ledger up to so many accounts and settled requests, past the
// code, which would take hours.
func (e *env) grow(b *testing.B, accounts, lines int) {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO account (id, name) SELECT gen_random_uuid(), 'grown'
			FROM generate_series(1, $1 - (SELECT count(*) FROM account))`, []any{accounts}},
		{`INSERT INTO wallet (account_id, posted) SELECT id, 1000000000000000 FROM account a
			WHERE NOT EXISTS (SELECT FROM wallet w WHERE w.account_id = a.id)`, nil},
		{`INSERT INTO consumer_key (id, account_id, name, hash, prefix)
			SELECT gen_random_uuid(), id, '', sha256(id::text::bytea), 'grown'
			FROM account a WHERE NOT EXISTS (SELECT FROM consumer_key k WHERE k.account_id = a.id)`, nil},
		{`INSERT INTO key_inflight (key_id) SELECT id FROM consumer_key k
			WHERE NOT EXISTS (SELECT FROM key_inflight f WHERE f.key_id = k.id)`, nil},
		{grownHolds, []any{lines}},
		{grownLines, nil},
	} {
		tx, err := e.owner.Begin(ctx)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tx.Exec(ctx,
			`SELECT set_config('session_replication_role', 'replica', true),
				set_config('statement_timeout', '0', true)`); err != nil {
			b.Fatal(err)
		}
		if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
	// What the server would do behind the load.
	conn, err := e.owner.Acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{`SET statement_timeout = 0`, `VACUUM ANALYZE`, `CHECKPOINT`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			b.Fatal(err)
		}
	}
}

// Requests of the last hours, spread over all accounts.
const (
	grownHolds = `WITH owner AS (SELECT array_agg(id) AS keys, array_agg(account_id) AS accounts
		FROM (SELECT id, account_id FROM consumer_key LIMIT 100000) k)
	INSERT INTO hold (request_id, account_id, key_id, model_id, billing_type, amount, prompt_tokens, max_completion_tokens,
		pinned, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, rate_limit,
		rate_remaining, rate_reset_at, state, expires_at, closed_at)
	SELECT overlay(gen_random_uuid()::text PLACING left(h, 8) || '-' || right(h, 4) || '-7' FROM 1 FOR 15)::uuid,
		accounts[1 + n % cardinality(accounts)], keys[1 + n % cardinality(keys)], 'grown', 'payg', 10000000, 0, 1, false,
		gen_random_uuid(), 10000000000, 10000000000, 7000000000, 7000000000, 0, 0, now(), 'settled',
		now() + interval '1 minute', now()
	FROM owner, generate_series(1, $1::bigint - (SELECT count(*) FROM hold WHERE model_id = 'grown')) n,
		LATERAL (SELECT lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - n % 1000000), 12, '0') AS h) t`
	grownLines = `INSERT INTO usage_settlement (day, request_id, account_id, key_id, provider_id, hub_id, attempt, epoch,
		model_id, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, prompt_tokens,
		completion_tokens, list_price, payout, charged, shortfall, source, ending, claim_state, claimed_prompt,
		claimed_completion, recounted_completion, delivered_bytes, estimated_prompt, route_mode, requested_provider,
		fallback_reason, payload_hash, first_content_ms)
	SELECT date '1970-01-01' + (('x' || left(replace(h.request_id::text, '-', ''), 12))::bit(48)::bigint
		/ 86400000)::integer,
		h.request_id, h.account_id, h.key_id, h.price_version_id, 'hub-1', 1, 1, 'grown', h.price_version_id,
		h.input_rate, h.output_rate, h.payout_input_rate, h.payout_output_rate, 0, 1, 10000000, 7000000, 10000000,
		0, 'payg', 'completed', 'valid', 0, 1, 1, 4, 0, 'auto', '', '', sha256(h.request_id::text::bytea), 5
	FROM hold h WHERE h.model_id = 'grown' AND NOT EXISTS (SELECT FROM usage_settlement s
		WHERE s.request_id = h.request_id)`
)
