package store

// revaluationChecks are the invariants of what coins are worth in the books.
func revaluationChecks() []check {
	return []check{
		bySQL("a coin is valued once a day, by what it was worth, and posted where that is a change",
			`SELECT count(*) FROM revaluation`,
			`SELECT format('%s on %s: %s units of %s at %s are worth %s, entry %s', token, day, units, booked, rate, worth,
				coalesce(entry_id::text, 'none'))
			FROM revaluation WHERE (entry_id IS NULL) <> (worth = booked)
				OR 2 * abs(worth::numeric * 1000000000 - units::numeric * rate) > 1000000000
				OR 2 * abs(worth::numeric * 1000000000 - units::numeric * rate) = 1000000000 AND worth % 2 <> 0
				OR day > (kept_at AT TIME ZONE 'UTC')::date`),
		bySQL("what a closed month withholds was held then", `SELECT count(*) FROM plan_share`,
			`SELECT s.month || ' ' || s.provider_id || ': ' || s.withheld || ', held ' || coalesce(h.amount, 0)
			FROM plan_share s JOIN plan_month m USING (month)
			LEFT JOIN LATERAL (SELECT sum(CASE l.kind WHEN 'held' THEN l.amount ELSE -l.amount END) AS amount
				FROM batch_line l WHERE l.month = s.month AND l.month <> '' AND l.provider_id = s.provider_id
					AND (l.kind = 'held' AND l.day <= m.through
						OR l.kind IN ('released', 'held_refunded', 'forfeited', 'held_reversed') AND l.at <= m.closed_at
							AND EXISTS (SELECT FROM batch_line h WHERE h.request_id = l.request_id AND h.kind = 'held'
								AND h.day <= m.through))) h ON true
			WHERE s.withheld <> coalesce(h.amount, 0)
				AND (m.closed_at AT TIME ZONE 'UTC')::date <= (SELECT max(day) FROM batch_day)
				AND NOT EXISTS (SELECT FROM batch_block k WHERE k.provider_id = s.provider_id)`),
		bySQL("what was shared of a closed month was withheld and released", `SELECT count(*) FROM plan_release`,
			`SELECT 'request ' || p.request_id || ' of ' || p.month FROM plan_release p JOIN plan_month m USING (month)
			WHERE NOT EXISTS (SELECT FROM batch_line l WHERE l.request_id = p.request_id AND l.kind = 'released'
					AND l.month = p.month AND l.at > m.closed_at)
				OR NOT EXISTS (SELECT FROM batch_line h WHERE h.request_id = p.request_id AND h.kind = 'held'
					AND h.month = p.month AND h.day <= m.through)`),
	}
}
