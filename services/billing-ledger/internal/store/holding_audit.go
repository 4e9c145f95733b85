package store

// holdingChecks are the invariants of tokens and of accounts' states, in the form of
// auditChecks.
var holdingChecks = []check{
	{
		"a coin moves with its own quote, and USDC with none",
		`SELECT count(*) FROM entry WHERE quote_asset IS NOT NULL`,
		`SELECT format('entry %s moves %s, its quote is of %s', e.id, coalesce(p.coin, 'no coin'),
			coalesce(e.quote_asset, 'nothing'))
		FROM entry e LEFT JOIN (SELECT entry_id, min(book) AS coin, count(DISTINCT book) AS coins FROM posting
			WHERE account_kind = 'a:crypto' AND book NOT LIKE '%:usdc' GROUP BY entry_id) p ON p.entry_id = e.id
		WHERE e.reverses IS NULL AND (e.quote_asset IS DISTINCT FROM p.coin OR p.coins > 1)`,
	}, {
		"a coin is revalued once a day, to what it was worth",
		`SELECT count(*) FROM revaluation`,
		`SELECT format('%s on %s: %s units of %s are worth %s, posted %s in entry %s', r.token, r.day, r.units, r.booked,
			r.worth, e.change, coalesce(r.entry_id, e.id))
		FROM (SELECT v.*, 10::numeric ^ a.decimals AS whole FROM revaluation v JOIN asset a ON a.id = v.token) r
		FULL JOIN (SELECT e.id, e.business_id, e.quote_asset, e.quote_rate, -sum(p.amount) FILTER (WHERE
				p.account_kind = 'a:crypto' AND p.asset = 'usd' AND p.book = e.quote_asset) AS change
			FROM entry e LEFT JOIN posting p ON p.entry_id = e.id WHERE e.kind = 'revaluation' GROUP BY e.id) e
			ON e.id = r.entry_id
		WHERE r.entry_id IS NULL OR e.id IS NULL OR e.quote_asset <> r.token
			OR e.business_id <> r.token || '/' || to_char(r.day, 'YYYY-MM-DD')
			OR r.worth - r.booked IS DISTINCT FROM e.change
			OR 2 * abs(r.worth * r.whole - r.units::numeric * e.quote_rate) > r.whole
			OR 2 * abs(r.worth * r.whole - r.units::numeric * e.quote_rate) = r.whole AND r.worth % 2 <> 0`,
	}, {
		"an account is in the state of its last change",
		`SELECT count(*) FROM account WHERE state <> 'open'`,
		`SELECT format('account %s is %s, last set to %s', a.id, a.state, coalesce(c.state, 'nothing')) FROM account a
		LEFT JOIN LATERAL (SELECT state FROM account_state_change c WHERE c.account_id = a.id ORDER BY id DESC LIMIT 1) c
			ON true
		WHERE a.state <> coalesce(c.state, 'open')`,
	},
}
