package store

// monthChecks are the invariants of months of plans, in the form of auditChecks.
var monthChecks = []check{
	{
		"what a closed month still owes is what waits of its shares and what came late",
		`SELECT count(*) FROM closed_month`,
		`WITH waits AS (
			SELECT s.month, sum(s.withheld - s.withheld_paid - coalesce(e.unpaid, 0)) AS amount FROM closed_share s
			LEFT JOIN (SELECT month, provider_id, sum(earned - paid) AS unpaid FROM withheld_end GROUP BY 1, 2) e
				USING (month, provider_id)
			GROUP BY s.month),
		late AS (
			SELECT month, sum(amount) AS amount FROM (
				SELECT m.month, l.amount FROM closed_month m JOIN ledger_leg l ON l.book = m.month
				WHERE l.account_kind = 'l:provider:plan_held' AND l.line = 12
					AND l.at >= (m.through + 1)::timestamp AT TIME ZONE 'UTC'
				UNION ALL SELECT m.month, p.amount FROM closed_month m JOIN posting p ON p.book = m.month
				JOIN entry e ON e.id = p.entry_id AND e.at > m.closed_at
				WHERE p.account_kind = 'l:provider:plan_held' AND p.entry_kind = 'plan_forfeit'
					AND NOT EXISTS (SELECT FROM withheld_end w WHERE w.entry_id = e.id)) l GROUP BY month),
		stands AS (
			SELECT book AS month, -sum(amount) AS amount FROM ledger_leg
			WHERE account_kind = 'x:plan_accrual' AND book IN (SELECT month FROM closed_month) GROUP BY book)
		SELECT format('month %s: stands %s, waits %s, late %s', month, coalesce(stands.amount, 0), coalesce(waits.amount, 0),
			coalesce(late.amount, 0))
		FROM closed_month LEFT JOIN waits USING (month) LEFT JOIN late USING (month) LEFT JOIN stands USING (month)
		WHERE coalesce(stands.amount, 0) <> coalesce(waits.amount, 0) + coalesce(late.amount, 0)`,
	}, {
		"the shares of a closed month are its sums",
		`SELECT count(*) FROM closed_month`,
		`SELECT format('month %s: earned %s, paid %s of %s providers', month, sum(s.earned), sum(s.paid),
			count(s.provider_id))
		FROM closed_month m LEFT JOIN closed_share s USING (month)
		GROUP BY month, m.earned, m.paid, m.providers
		HAVING (coalesce(sum(s.earned), 0), coalesce(sum(s.paid), 0), count(s.provider_id))
			<> (m.earned, m.paid, m.providers)`,
	}, {
		"a closed month paid its shares at once, but for what is withheld",
		`SELECT count(*) FROM closed_share`,
		`SELECT format('month %s, provider %s: %s of %s at once, posted %s of %s', s.month, s.provider_id,
			s.paid - s.withheld_paid, s.earned - s.withheld, e.paid, e.earned)
		FROM closed_share s CROSS JOIN LATERAL (
			SELECT coalesce(-sum(p.amount) FILTER (WHERE p.account_kind = 'l:provider:plan_held'), 0) AS earned,
				coalesce(sum(p.amount) FILTER (WHERE p.account_kind <> 'l:provider:plan_held'), 0) AS paid
			FROM entry e JOIN posting p ON p.entry_id = e.id
			WHERE e.kind = 'plan_share' AND e.business_id = s.month || '/' || s.provider_id
				AND p.account_kind IN ('l:provider:plan_held', 'l:provider:payable', 'a:provider_receivable')) e
		WHERE (e.earned, e.paid) <> (s.earned - s.withheld, s.paid - s.withheld_paid)`,
	}, {
		"what a closed month withholds is what was held then, and ends as it was ruled",
		`SELECT count(*) FROM held_earning WHERE withheld`,
		`SELECT format('month %s, provider %s: withholds %s, held %s', month, provider_id, s.withheld, h.amount)
		FROM closed_share s FULL JOIN (SELECT book AS month, provider_id, sum(payout) AS amount FROM held_earning
			WHERE withheld GROUP BY 1, 2) h USING (month, provider_id)
		WHERE coalesce(s.withheld, 0) <> coalesce(h.amount, 0)
		UNION ALL
		SELECT format('month %s, provider %s: ended %s of %s, with %s of %s', s.month, s.provider_id, sum(w.earned),
			s.withheld, sum(w.paid), s.withheld_paid)
		FROM closed_share s JOIN withheld_end w USING (month, provider_id)
		GROUP BY s.month, s.provider_id, s.withheld, s.withheld_paid
		HAVING sum(w.earned) > s.withheld OR sum(w.paid) > s.withheld_paid
			OR sum(w.earned) = s.withheld AND sum(w.paid) <> s.withheld_paid
		UNION ALL
		SELECT format('request %s: %s, posted as %s', h.request_id, coalesce(h.ended_as, 'held'), e.kind)
		FROM held_earning h JOIN entry e ON e.kind IN ('plan_share', 'plan_forfeit', 'plan_unclaimed')
			AND e.business_id = h.book || '/' || h.provider_id || '/held/' || h.request_id
		WHERE h.ended_as IS DISTINCT FROM CASE e.kind WHEN 'plan_share' THEN 'released' ELSE 'forfeited' END
			OR e.kind <> 'plan_forfeit' AND NOT h.withheld
		UNION ALL
		SELECT format('request %s was withheld and is forfeited, and nothing is posted', h.request_id) FROM held_earning h
		WHERE h.withheld AND h.ended_as = 'forfeited'
			AND NOT EXISTS (SELECT FROM withheld_end w WHERE w.request_id = h.request_id)`,
	}, {
		"the pool of a month is what plans paid into it, until its close takes all of it",
		`SELECT count(DISTINCT book) FROM posting WHERE account_kind = 'l:plan_pool'`,
		`SELECT format('month %s: %s in the pool', book, sum(p.amount)) FROM posting p
		WHERE account_kind = 'l:plan_pool' GROUP BY book
		HAVING sum(p.amount) < 0 OR sum(p.amount) > 0 AND EXISTS (SELECT FROM closed_month WHERE month = book)
		UNION ALL
		SELECT format('month %s: closed with a pool of %s, paid in %s', month, pool, coalesce(paid_in, 0)) FROM closed_month
		LEFT JOIN (SELECT book AS month, sum(amount) AS paid_in FROM posting
			WHERE account_kind = 'l:plan_pool' AND entry_kind <> 'plan_close' GROUP BY 1) p USING (month)
		WHERE pool <> coalesce(paid_in, 0)`,
	},
}
