package store

// heldChecks are the invariants of held earnings.
var heldChecks = []check{
	{
		"what is held of earnings has not been taken",
		`SELECT count(DISTINCT (provider_id, book)) FROM held_earning WHERE ended_as IS NULL`,
		`WITH held AS MATERIALIZED (
			SELECT provider_id AS owner_id, book,
				CASE book WHEN '' THEN 'l:provider:accrued' ELSE 'l:provider:plan_held' END AS account_kind, sum(payout) AS amount
			FROM held_earning WHERE ended_as IS NULL GROUP BY 1, 2)
		SELECT format('provider %s: %s of %s %s, of which %s are held', owner_id, coalesce(l.amount, 0), account_kind, book,
			h.amount)
		FROM held h LEFT JOIN (SELECT account_kind, owner_id, book, sum(l.amount) AS amount
			FROM ledger_leg l JOIN held USING (account_kind, owner_id, book) WHERE asset = 'usd' GROUP BY 1, 2, 3) l
			USING (account_kind, owner_id, book)
		WHERE coalesce(l.amount, 0) < h.amount`,
	}, {
		"what is held was earned by its request",
		`SELECT count(*) FROM held_earning`,
		`SELECT format('request %s: held %s, earned %s', h.request_id, h.payout, s.payout)
		FROM held_earning h LEFT JOIN usage_settlement s USING (day, request_id)
		WHERE (h.account_id, h.provider_id, h.payout, h.book)
			IS DISTINCT FROM (s.account_id, s.provider_id, s.payout, CASE s.source WHEN 'plan' THEN to_char(s.day, 'YYYY-MM')
				ELSE '' END)`,
	},
}
