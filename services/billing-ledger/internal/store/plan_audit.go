package store

// planChecks are the invariants of plans and refunds, in the form of auditChecks.
var planChecks = []check{
	{
		"plan counters are what the plans covered",
		`SELECT count(*) FROM plan_counter`,
		`WITH covered AS (
			SELECT h.account_id, h.plan_id, h.plan_tier, h.plan_day,
				CASE WHEN h.plan_refunded THEN 0 ELSE 1 END AS requests,
				CASE WHEN h.plan_refunded THEN 0 ELSE h.images END AS images,
				CASE WHEN h.unit <> 0 THEN 0 WHEN h.state = 'open' THEN h.prompt_tokens + h.max_completion_tokens
					WHEN h.state = 'settled' THEN s.prompt_tokens + s.completion_tokens ELSE 0 END AS tokens,
				CASE h.state WHEN 'open' THEN h.plan_price WHEN 'settled' THEN s.list_price ELSE 0 END AS list_price
			FROM hold h LEFT JOIN usage_settlement s ON s.request_id = h.request_id AND s.source = 'plan'
			WHERE h.plan_id IS NOT NULL),
		counted AS (
			SELECT v.account_id, l.kind, l.period, date_trunc(l.period, v.plan_day::timestamp)::date AS window_start,
				sum(CASE l.kind WHEN 'requests' THEN v.requests WHEN 'images' THEN v.images WHEN 'tokens' THEN v.tokens
					ELSE v.list_price END) AS used
			FROM covered v JOIN plan_limit l ON l.plan_id = v.plan_id AND v.plan_tier = ANY (coalesce(l.draws, l.tiers))
				AND l.period IN ('day', 'week', 'month')
			GROUP BY 1, 2, 3, 4)
		SELECT format('account %s: %s a %s from %s: counted %s, covered %s', account_id, kind, period, window_start, c.used,
			v.used)
		FROM plan_counter c FULL JOIN counted v USING (account_id, kind, period, window_start)
		-- What a window counted on cleared days cannot be counted again. A day more,
		-- because ids have the gateways' clocks and counters the database's.
		WHERE coalesce(c.used, 0) <> coalesce(v.used, 0) AND window_start > (SELECT kept_since())`,
	}, {
		"no admission passed the cap of a plan",
		`SELECT count(*) FROM plan_counter`,
		`SELECT format('account %s: %s a %s from %s: used %s of %s, %s by settling', account_id, kind, period, window_start,
			used, cap, excess)
		FROM plan_counter WHERE used - excess > cap`,
	}, {
		"places in a plan are its open holds without a report",
		`SELECT count(*) FROM plan_gate`,
		`SELECT format('account %s: %s places are taken, by %s open holds', account_id, g.open, h.n)
		FROM plan_gate g FULL JOIN (SELECT account_id, count(*) AS n FROM hold
			WHERE state = 'open' AND plan_id IS NOT NULL
				AND NOT EXISTS (SELECT FROM request_report w WHERE w.request_id = hold.request_id)
			GROUP BY account_id) h USING (account_id)
		WHERE coalesce(g.open, 0) <> coalesce(h.n, 0)`,
	}, {
		"a refund is the charge of its request",
		`SELECT count(*) FROM entry WHERE kind IN ('request_refund', 'goodwill_refund')`,
		`SELECT format('request %s: charged %s, refunded %s', s.request_id, s.charged, p.amount)
		FROM entry e JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:consumer:available'
		JOIN usage_settlement s ON s.request_id::text = e.business_id
		WHERE e.kind IN ('request_refund', 'goodwill_refund') AND (p.amount, p.owner_id) <> (s.charged, s.account_id)`,
	}, {
		"what is given back of a broken answer is no more than its charge",
		`SELECT count(*) FROM entry WHERE kind = 'broken_answer'`,
		`SELECT format('request %s: charged %s, given back %s', s.request_id, s.charged, p.amount)
		FROM entry e JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:consumer:available'
		JOIN usage_settlement s ON s.request_id::text = e.business_id
		WHERE e.kind = 'broken_answer' AND (p.amount > s.charged OR p.owner_id <> s.account_id)`,
	},
}
