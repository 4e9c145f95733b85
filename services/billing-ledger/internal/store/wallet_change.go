package store

import (
	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// move changes wallets, and the counters of the same accounts, by the given amounts. The
// wallets are locked.
func move(batch *pgx.Batch, m usage.Moves) {
	moveMoney(batch, m.Wallets)
	leave(batch, `UPDATE key_inflight f SET n = f.n - c.n,
			used_at = CASE WHEN f.used_at > now() - interval '1 minute' THEN f.used_at ELSE now() END
		FROM unnest($1::uuid[], $2::integer[]) AS c (id, n) WHERE f.key_id = c.id`, m.Ended)
	leave(batch, `UPDATE plan_gate g SET open = g.open - c.n
		FROM unnest($1::uuid[], $2::integer[]) AS c (id, n) WHERE g.account_id = c.id`, m.Left)
	moveSpend(batch, m.Spend)
	moveCategories(batch, m.Categories)
	correctPlans(batch, m.Plans)
}

func moveMoney(batch *pgx.Batch, changes map[ids.AccountID]usage.Change) {
	var accounts [][16]byte
	var charged, released []int64
	for account, c := range changes {
		if c != (usage.Change{}) {
			accounts = append(accounts, account)
			charged = append(charged, int64(c.Charged))
			released = append(released, int64(c.Released))
		}
	}
	if len(accounts) > 0 {
		batch.Queue(`UPDATE wallet w SET posted = w.posted - c.charged, held = w.held - c.released
			FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS c (account_id, charged, released)
			WHERE w.account_id = c.account_id`, accounts, charged, released)
	}
}

func leave[K any](batch *pgx.Batch, sql string, counts map[ids.Of[K]]int) {
	if len(counts) == 0 {
		return
	}
	var of [][16]byte
	var n []int32
	for id, count := range counts {
		of = append(of, id)
		n = append(n, int32(count))
	}
	batch.Queue(sql, of, n)
}

// correctCounters moves the counters of the pinned windows. A counter that passes its cap
// keeps the excess, because no admission may pass the cap.
const correctCounters = `WITH moved AS (
	SELECT u.account_id, l.kind, l.period,
		date_trunc(l.period, (date '1970-01-01' + u.day)::timestamp)::date AS window_start,
		sum(CASE l.kind WHEN 'requests' THEN u.requests WHEN 'images' THEN u.images WHEN 'tokens' THEN u.tokens
			ELSE u.list_price END)::bigint AS units
	FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::integer[], $5::bigint[], $6::bigint[], $7::bigint[],
		$8::bigint[])
		AS u (account_id, plan_id, tier, day, requests, images, tokens, list_price)
	JOIN plan_limit l ON l.plan_id = u.plan_id AND u.tier = ANY (coalesce(l.draws, l.tiers))
		AND l.period IN ('day', 'week', 'month')
	GROUP BY 1, 2, 3, 4)
UPDATE plan_counter c SET used = c.used + m.units, excess = greatest(c.excess, c.used + m.units - c.cap)
FROM moved m
WHERE (c.account_id, c.kind, c.period, c.window_start) = (m.account_id, m.kind, m.period, m.window_start)
	AND m.units <> 0`

func correctPlans(batch *pgx.Batch, corrections map[plan.Key]plan.Units) {
	if len(corrections) == 0 {
		return
	}
	var (
		accounts                         [][16]byte
		plans                            []string
		tiers                            []int16
		days                             []int32
		requests, images, tokens, prices []int64
	)
	for key, u := range corrections {
		accounts = append(accounts, key.Account)
		plans = append(plans, key.Plan)
		tiers = append(tiers, int16(key.Tier))
		days = append(days, key.Day)
		requests = append(requests, u.Requests)
		images = append(images, u.Images)
		tokens = append(tokens, u.Tokens)
		prices = append(prices, int64(u.ListPrice))
	}
	batch.Queue(correctCounters, accounts, plans, tiers, days, requests, images, tokens, prices)
}
