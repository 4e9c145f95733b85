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

// owners are the balances of accounts that may not pass zero: the last snapshot, which is
// checked with its day, and what was recorded since.
const owners = `
	WITH open AS (
		SELECT coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS since
	), parts AS (
		(SELECT DISTINCT ON (account_kind, owner_id, book) account_kind, owner_id, book, balance AS amount
		FROM balance_snapshot WHERE asset = 'usd'
			AND (account_kind LIKE 'l:provider:%' OR account_kind IN ('a:provider_receivable', 'a:consumer_receivable'))
		ORDER BY account_kind, owner_id, book, day DESC)
		UNION ALL
		SELECT account_kind, owner_id, book, sum(amount) FROM ledger_leg
		WHERE asset = 'usd' AND at >= (SELECT since FROM open)
			AND (account_kind LIKE 'l:provider:%' OR account_kind IN ('a:provider_receivable', 'a:consumer_receivable'))
		GROUP BY 1, 2, 3
	), balance AS (
		SELECT account_kind, owner_id, book, sum(amount) AS amount FROM parts GROUP BY 1, 2, 3
	)`

// payoutChecks are the invariants of what providers are paid and of debts, in the form of
// auditChecks.
var payoutChecks = []check{
	{
		"no provider has less than nothing",
		owners + ` SELECT count(*) FROM balance WHERE account_kind LIKE 'l:provider:%'`,
		owners + ` SELECT format('provider %s: %s on %s %s', owner_id, amount, account_kind, book)
		FROM balance WHERE account_kind LIKE 'l:provider:%' AND amount < 0`,
	}, {
		"nobody has paid more than was owed",
		owners + ` SELECT count(*) FROM balance WHERE account_kind LIKE 'a:%'`,
		owners + ` SELECT format('owner %s: %s too much on %s', owner_id, amount, account_kind)
		FROM balance WHERE account_kind LIKE 'a:%' AND amount > 0`,
	}, {
		"a payout ends once, and as it was requested",
		`SELECT count(*) FROM entry WHERE kind IN ('payout_confirmed', 'payout_failed')`,
		`SELECT format('payout %s: requested %s, ended with %s in %s entries', business_id, max(a.amount), min(b.amount),
			count(*))
		FROM entry e JOIN posting b ON b.entry_id = e.id AND b.account_kind = 'l:provider:payout_in_flight'
		LEFT JOIN (SELECT q.business_id, p.owner_id, p.amount FROM entry q
			JOIN posting p ON p.entry_id = q.id AND p.account_kind = 'l:provider:payout_in_flight'
			WHERE q.kind = 'payout_requested') a USING (business_id)
		WHERE e.kind IN ('payout_confirmed', 'payout_failed')
		GROUP BY business_id HAVING count(*) <> 1
			OR bool_or((a.owner_id, a.amount) IS DISTINCT FROM (b.owner_id, -b.amount))`,
	}, {
		"a slash ends once",
		`SELECT count(*) FROM entry WHERE kind IN ('slash_forfeit', 'slash_appeal_won')`,
		`SELECT format('slash %s has %s ends', business_id, count(*)) FROM entry
		WHERE kind IN ('slash_forfeit', 'slash_appeal_won') GROUP BY business_id HAVING count(*) > 1`,
	},
}
