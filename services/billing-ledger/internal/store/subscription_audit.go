package store

// subscriptionChecks are the invariants of plans that are sold, in the form of auditChecks.
var subscriptionChecks = []check{
	{
		"a plan that no operator gave comes from a paid invoice",
		`SELECT count(*) FROM account_plan WHERE subscription_id IS NOT NULL`,
		`SELECT format('account %s: %s to %s by subscription %s', a.account_id, a.from_at, a.until_at, a.subscription_id)
		FROM account_plan a JOIN subscription b ON b.id = a.subscription_id
		WHERE (a.account_id, a.plan_id) <> (b.account_id, b.plan_id) OR NOT EXISTS (SELECT FROM plan_invoice i
			WHERE i.subscription_id = b.id AND i.account_id = a.account_id AND a.from_at >= i.paid_at
				AND i.refund_cause IS DISTINCT FROM 'surplus' AND i.refund_cause IS DISTINCT FROM 'late'
				AND greatest(a.from_at, coalesce(a.until_at, 'infinity')) <= greatest(a.from_at,
					(SELECT max(l.period_end) FROM plan_invoice l WHERE l.subscription_id = b.id) + interval '72 hours'))`,
	}, {
		"a paid invoice is line 11, and has its payment",
		`SELECT count(*) FROM plan_invoice`,
		`SELECT format('invoice %s: %s cents into %s, posted %s', i.id, i.cents, i.month, s.amount)
		FROM plan_invoice i LEFT JOIN (SELECT e.id, e.business_id, p.book, p.amount FROM entry e
				JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:plan_pool' WHERE e.kind = 'plan_sale') s
			ON s.id = i.entry_id
		LEFT JOIN card_payment c ON c.id = i.payment_id
		WHERE (s.business_id, s.book, s.amount, c.invoice_id, c.cents) IS DISTINCT FROM
			(i.id, i.month, i.cents * 10000000, i.id, i.cents)`,
	}, {
		"what went back of an invoice was posted, and is no more than was paid",
		`SELECT count(*) FROM plan_return`,
		`SELECT format('return %s of invoice %s: %s cents, posted %s', r.id, r.invoice_id, r.cents, s.amount)
		FROM plan_return r LEFT JOIN (SELECT e.id, e.business_id, p.book, -p.amount AS amount FROM entry e JOIN posting p
				ON p.entry_id = e.id AND p.account_kind IN ('l:plan_pool', 'e:goodwill') WHERE e.kind = 'plan_refund') s
			ON s.id = r.entry_id
		WHERE (s.business_id, nullif(s.book, ''), s.amount) IS DISTINCT FROM (r.id, r.month, r.cents * 10000000)
		UNION ALL
		SELECT format('invoice %s: %s cents of %s went back', i.id, sum(r.cents), i.cents)
		FROM plan_invoice i JOIN plan_return r ON r.invoice_id = i.id
		GROUP BY i.id HAVING sum(r.cents) > i.cents`,
	}, {
		"the pool of an open month is its invoices without what went back",
		`SELECT count(DISTINCT month) FROM plan_invoice`,
		`WITH sold AS (
			SELECT month, sum(cents) * 10000000 AS amount FROM (
				SELECT month, cents FROM plan_invoice UNION ALL
				SELECT month, -cents FROM plan_return WHERE month IS NOT NULL) m GROUP BY month),
		stands AS (
			SELECT p.book AS month, sum(p.amount) AS amount FROM posting p JOIN entry e ON e.id = p.entry_id
			WHERE p.account_kind = 'l:plan_pool' AND (EXISTS (SELECT FROM plan_invoice i WHERE i.entry_id = e.id)
				OR EXISTS (SELECT FROM plan_return r WHERE r.entry_id = e.id)) GROUP BY p.book)
		SELECT format('month %s: sold %s, stands %s', month, sold.amount, stands.amount)
		FROM sold LEFT JOIN stands USING (month) WHERE sold.amount IS DISTINCT FROM coalesce(stands.amount, 0)`,
	}, {
		"a subscription stands where its invoices and the clock have it",
		`SELECT count(*) FROM subscription`,
		`SELECT format('subscription %s: %s to %s, last paid to %s', b.id, b.state, b.period_end, i.period_end)
		FROM subscription b LEFT JOIN (SELECT subscription_id, max(period_end) AS period_end FROM plan_invoice
			WHERE refund_cause IS NULL OR refund_cause = 'operator' GROUP BY 1) i ON i.subscription_id = b.id
		WHERE b.period_end IS DISTINCT FROM i.period_end`,
	},
}
