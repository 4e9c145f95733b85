package store

// passbookChecks recompute passbooks, sums of usage and documents from what was recorded, in
// the form of auditChecks. What the fold has not reached is not looked at. They compare
// accounts by day, so their memory is bounded by those and not by the lines.
var passbookChecks = []check{
	{
		"passbooks have what was recorded",
		`SELECT count(*) FROM passbook_line`,
		`WITH recorded AS (
			SELECT u.account_id, (u.settled_at AT TIME ZONE 'UTC')::date AS day, 'usage' AS kind, -u.charged AS amount
			FROM usage_settlement u, passbook_fold f WHERE u.settled_at >= f.begun_at AND u.settled_at < f.until_at
			UNION ALL
			SELECT p.owner_id, (e.at AT TIME ZONE 'UTC')::date, e.kind, sum(p.amount)
			FROM entry e JOIN posting p ON p.entry_id = e.id, passbook_fold f
			WHERE e.at >= f.begun_at AND e.at < f.until_at AND p.account_kind = 'l:consumer:available'
			GROUP BY p.owner_id, e.id HAVING sum(p.amount) <> 0)
		SELECT format('account %s, %s: %s lines of %s that sum to %s, recorded %s that sum to %s', account_id, day,
			coalesce(l.n, 0), kind, coalesce(l.amount, 0), coalesce(r.n, 0), coalesce(r.amount, 0))
		FROM (SELECT account_id, day, kind, count(*) AS n, sum(amount) AS amount FROM recorded GROUP BY 1, 2, 3) r
		FULL JOIN (SELECT account_id, (at AT TIME ZONE 'UTC')::date AS day, kind, count(*) AS n, sum(amount) AS amount
			FROM passbook_line GROUP BY 1, 2, 3) l USING (account_id, day, kind)
		WHERE (r.n, r.amount) IS DISTINCT FROM (l.n, l.amount)`,
	}, {
		"the balance of each line follows from the line before",
		`SELECT count(*) FROM passbook_line`,
		`SELECT format('account %s, line %s of %s: balance %s after %s and %s', account_id, n, at, balance, before, amount)
		FROM (SELECT *, lag(balance, 1, 0::bigint) OVER (PARTITION BY account_id ORDER BY at, n) AS before
			FROM passbook_line) l WHERE balance <> before + amount`,
	}, {
		"sums of usage are those of the lines",
		`SELECT count(*) FROM usage_day`,
		`SELECT format('series %s, %s: %s requests charged %s, lines %s charged %s', series_id, day, d.requests, d.charged,
			l.requests, l.charged)
		FROM usage_day d FULL JOIN (SELECT l.series_id, (l.at AT TIME ZONE 'UTC')::date AS day, count(*) AS requests,
				sum(l.prompt_tokens) AS prompt, sum(l.completion_tokens) AS completion, -sum(l.amount) AS charged,
				sum(CASE s.source WHEN 'plan' THEN l.list_price ELSE 0 END) AS covered
			FROM passbook_line l JOIN usage_series s ON s.id = l.series_id GROUP BY 1, 2) l USING (series_id, day)
		WHERE (d.requests, d.prompt_tokens, d.completion_tokens, d.charged, d.covered)
			IS DISTINCT FROM (l.requests, l.prompt, l.completion, l.charged, l.covered)`,
	}, {
		"documents are numbered without gaps",
		`SELECT count(*) FROM document`,
		`SELECT format('series %s of %s: last %s, %s documents up to %s', series, year, n.last, d.n, d.last)
		FROM document_number n FULL JOIN
			(SELECT series, year, count(*) AS n, max(number) AS last FROM document GROUP BY 1, 2) d USING (series, year)
		WHERE n.last IS DISTINCT FROM d.last OR d.n IS DISTINCT FROM d.last`,
	}, {
		"a credit has its receipt",
		`SELECT count(*) FROM document WHERE series = 'R'`,
		`SELECT format('entry %s of account %s: credit %s, receipt of %s', entry_id, account_id, c.amount, d.amount)
		FROM (SELECT e.id AS entry_id, p.owner_id AS account_id, sum(p.amount) AS amount
			FROM entry e JOIN posting p ON p.entry_id = e.id, passbook_fold f
			WHERE e.at >= f.begun_at AND e.at < f.until_at AND p.account_kind = 'l:consumer:available'
				AND e.kind IN ('card_topup', 'deposit_usdc', 'deposit_native', 'deposit_matched', 'earnings_credit', 'goodwill',
					'verification')
			GROUP BY 1, 2 HAVING sum(p.amount) > 0) c
		FULL JOIN (SELECT entry_id, account_id, amount FROM document WHERE series = 'R') d USING (entry_id, account_id)
		WHERE c.amount IS DISTINCT FROM d.amount`,
	},
	{
		"an invoice has what its month used and paid for plans",
		`SELECT count(*) FROM document WHERE series = 'I'`,
		`WITH months AS (
			SELECT s.account_id, date_trunc('month', d.day)::date AS month, d.charged AS amount
			FROM usage_series s JOIN usage_day d ON d.series_id = s.id WHERE s.source <> 'orphan'
			UNION ALL
			SELECT l.account_id, date_trunc('month', l.at AT TIME ZONE 'UTC')::date, -l.amount FROM passbook_line l
			WHERE l.kind IN ('request_refund', 'goodwill_refund', 'broken_answer')
				AND NOT EXISTS (SELECT FROM document d WHERE d.entry_id = l.ref AND d.account_id = l.account_id)
			UNION ALL
			SELECT i.account_id, date_trunc('month', e.at AT TIME ZONE 'UTC')::date, i.cents * 10000000
			FROM plan_invoice i JOIN entry e ON e.id = i.entry_id
			UNION ALL
			SELECT i.account_id, date_trunc('month', e.at AT TIME ZONE 'UTC')::date, r.cents * -10000000
			FROM plan_invoice i JOIN plan_return r ON r.invoice_id = i.id JOIN entry e ON e.id = r.entry_id
			WHERE NOT EXISTS (SELECT FROM document d WHERE d.entry_id = r.entry_id))
		SELECT format('account %s, %s: invoice of %s, used and paid %s', account_id, month, d.amount, m.amount)
		FROM (SELECT account_id, month, sum(amount) AS amount FROM months, passbook_fold f
			WHERE month < f.invoice_month GROUP BY 1, 2) m
		FULL JOIN (SELECT account_id, month, amount FROM document WHERE series = 'I') d USING (account_id, month)
		WHERE m.amount IS DISTINCT FROM d.amount
			AND month < (SELECT invoice_month FROM passbook_fold)`,
	},
}
