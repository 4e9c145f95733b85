package store

// cardChecks are the invariants of payments by card, in the form of auditChecks. A cent is
// 10,000,000 nano-USD.
var cardChecks = []check{
	{
		"collateral by card is what cards were charged for it",
		`SELECT count(*) FROM checkout WHERE state = 'paid'`,
		`SELECT format('session %s: charged %s, posted %s', session, c.amount, e.amount)
		FROM (SELECT c.session_id AS session, c.provider_id AS owner, c.cents * 10000000 AS amount FROM checkout c
			JOIN card_payment p ON p.checkout_id = c.id AND p.cents = c.cents + c.fee_cents
			WHERE c.state = 'paid' AND c.purpose = 'collateral') c
		FULL JOIN (SELECT e.business_id AS session, p.owner_id AS owner, p.amount FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:provider:collateral' WHERE e.kind = 'collateral_card') e
			USING (session)
		WHERE (c.owner, c.amount) IS DISTINCT FROM (e.owner, e.amount)
		UNION ALL
		SELECT format('checkout %s: %s, payment %s', c.id, c.state, p.id)
		FROM checkout c LEFT JOIN card_payment p ON p.checkout_id = c.id WHERE (c.state = 'paid') <> (p.id IS NOT NULL)`,
	}, {
		"what went back of collateral by card is taken back",
		`SELECT count(*) FROM card_reversal`,
		`SELECT format('reversal %s: went back %s, posted %s', id, r.amount, e.amount)
		FROM (SELECT id, cents * 10000000 AS amount FROM card_reversal) r
		FULL JOIN (SELECT e.business_id AS id, p.amount FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'a:card_clearing'
			WHERE e.kind = 'collateral_card_reversed') e USING (id)
		WHERE r.amount IS DISTINCT FROM e.amount`,
	}, {
		"of no card payment more went back than was paid",
		`SELECT count(*) FROM card_payment`,
		`SELECT format('payment %s: paid %s, went back %s cents', p.id, p.cents, b.cents)
		FROM card_payment p CROSS JOIN LATERAL (SELECT coalesce(sum(cents), 0) AS cents FROM (
			SELECT cents FROM card_refund WHERE payment_id = p.id AND state <> 'reversed'
			UNION ALL SELECT cents FROM card_reversal WHERE payment_id = p.id) back) b
		WHERE b.cents > p.cents`,
	}, {
		"what the card processor kept of a payment is posted",
		`SELECT count(*) FROM card_payment WHERE cost_cents > 0`,
		`SELECT format('balance transaction %s: kept %s, posted %s', p.cost_id, p.cost_cents * 10000000, l.amount)
		FROM card_payment p LEFT JOIN entry e ON e.kind = 'card_cost' AND e.business_id = p.cost_id
		LEFT JOIN posting l ON l.entry_id = e.id AND l.account_kind = 'a:card_clearing'
		WHERE p.cost_cents > 0 AND l.amount IS DISTINCT FROM p.cost_cents * 10000000`,
	}, {
		"whatever happened to collateral by card is listed once",
		`SELECT count(*) FROM card_change`,
		`SELECT format('%s %s: happened %s, listed %s', kind, reference, a.cents, h.cents)
		FROM (SELECT 'paid' AS kind, session_id AS reference, cents FROM checkout WHERE state = 'paid'
			UNION ALL SELECT 'reversed', id, cents FROM card_reversal
			UNION ALL SELECT 'refund_ended', id::text, cents FROM card_refund WHERE state <> 'asked') a
		FULL JOIN (SELECT kind, reference, cents FROM card_change WHERE kind <> 'expired') h USING (kind, reference)
		WHERE a.cents IS DISTINCT FROM h.cents
		UNION ALL
		SELECT format('%s changes, the last is number %s', count(*), max(number)) FROM card_change
		HAVING count(*) <> max(number)`,
	},
}
