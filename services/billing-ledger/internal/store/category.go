package store

import (
	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/usage"
)

// moveCategories frees places, and corrects tokens on their days. A day that passes its cap keeps
// the excess, because no admission may pass the cap. The wallets of the accounts are locked.
func moveCategories(batch *pgx.Batch, moves map[usage.CategoryWindow]usage.CategoryMove) {
	if len(moves) == 0 {
		return
	}
	var (
		accounts     [][16]byte
		classes      []int16
		days         []int32
		left, tokens []int64
	)
	for w, m := range moves {
		accounts, classes, days = append(accounts, w.Account), append(classes, int16(w.Class)), append(days, w.Day)
		left, tokens = append(left, int64(m.Left)), append(tokens, m.Tokens)
	}
	batch.Queue(`UPDATE category_gate g SET open = g.open - c.n
		FROM (SELECT u.account_id, u.class, sum(u.n)::integer AS n
			FROM unnest($1::uuid[], $2::smallint[], $3::bigint[]) AS u (account_id, class, n) GROUP BY 1, 2) c
		WHERE (g.account_id, g.class) = (c.account_id, c.class) AND c.n <> 0`, accounts, classes, left)
	batch.Queue(`UPDATE category_tokens t SET used = t.used + c.n,
			excess = greatest(t.excess, t.used + c.n - coalesce(t.cap, t.used + c.n))
		FROM unnest($1::uuid[], $2::smallint[], $3::integer[], $4::bigint[]) AS c (account_id, class, day, n)
		WHERE (t.account_id, t.class, t.day) = (c.account_id, c.class, date '1970-01-01' + c.day) AND c.n <> 0`,
		accounts, classes, days, tokens)
}

// categoryChecks are the invariants of accounts' terms, in the form of auditChecks.
var categoryChecks = []check{
	{
		"places in a category are its open holds without a report",
		`SELECT count(*) FROM category_gate`,
		`SELECT format('account %s: class %s: %s places are taken, by %s open holds', account_id, class, g.open, h.n)
		FROM category_gate g FULL JOIN (SELECT account_id, counted_class AS class, count(*) AS n FROM hold
			WHERE state = 'open' AND counted_class IS NOT NULL
				AND NOT EXISTS (SELECT FROM request_report w WHERE w.request_id = hold.request_id)
			GROUP BY 1, 2) h USING (account_id, class)
		WHERE coalesce(g.open, 0) <> coalesce(h.n, 0)`,
	}, {
		"tokens of a category are what its requests used",
		`SELECT count(*) FROM category_tokens`,
		`WITH counted AS (
			SELECT h.account_id, h.counted_class AS class, (h.admitted_at AT TIME ZONE 'UTC')::date AS day,
				sum(CASE WHEN h.unit <> 0 THEN 0 WHEN h.state = 'open' THEN h.prompt_tokens + h.max_completion_tokens
					WHEN h.state = 'settled' THEN s.prompt_tokens + s.completion_tokens ELSE 0 END) AS used
			FROM hold h LEFT JOIN usage_settlement s ON s.request_id = h.request_id AND s.source <> 'orphan'
			WHERE h.counted_class IS NOT NULL GROUP BY 1, 2, 3)
		SELECT format('account %s: class %s on %s: counted %s, used %s', account_id, class, day, t.used, c.used)
		FROM category_tokens t FULL JOIN counted c USING (account_id, class, day)
		-- Holds of cleared days are gone. A day more, as for plans.
		WHERE coalesce(t.used, 0) <> coalesce(c.used, 0) AND day > (SELECT kept_since())`,
	}, {
		"no admission passed the tokens of a category",
		`SELECT count(*) FROM category_tokens`,
		`SELECT format('account %s: class %s on %s: used %s of %s, %s by settling', account_id, class, day, used, cap,
			excess)
		FROM category_tokens WHERE used - excess > cap`,
	},
}
