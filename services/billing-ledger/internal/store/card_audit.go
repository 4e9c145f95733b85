package store

// cardChecks are the invariants of payments by card, in the form of auditChecks. A cent is
// 10,000,000 nano-USD.
var cardChecks = []check{
	{
		"credit by card is what cards were charged for it",
		`SELECT count(*) FROM checkout WHERE state = 'paid' AND purpose = 'topup'`,
		`SELECT format('entry %s: charged %s and %s, posted %s and %s', entry, c.amount, c.fee, e.amount, e.fee)
		FROM (SELECT c.account_id AS owner, c.cents * 10000000 AS amount, c.fee_cents * 10000000 AS fee,
				p.entry_id AS entry FROM checkout c
			JOIN card_payment p ON p.checkout_id = c.id AND p.cents = c.cents + c.fee_cents
			WHERE c.state = 'paid' AND c.purpose = 'topup') c
		FULL JOIN (SELECT p.owner_id AS owner, p.amount, e.id AS entry,
				coalesce((SELECT f.amount FROM posting f WHERE f.entry_id = e.id AND f.account_kind = 'r:card_fee'), 0) AS fee
			FROM entry e JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:consumer:available'
			WHERE e.kind = 'card_topup') e USING (entry)
		WHERE (c.owner, c.amount, c.fee) IS DISTINCT FROM (e.owner, e.amount, e.fee)`,
	}, {
		"debts of card payments are what is owed in the books",
		`SELECT count(*) FROM card_debt`,
		`SELECT format('account %s: owes %s by its debts, and %s in the books', owner, d.owed, b.owed)
		FROM (SELECT account_id AS owner, sum(owed - paid - lost - undone) AS owed FROM card_debt GROUP BY 1) d
		FULL JOIN (SELECT owner_id AS owner, -sum(amount) AS owed FROM posting p
			WHERE account_kind = 'a:consumer_receivable'
				AND entry_kind IN ('card_reversed', 'card_debt_paid', 'card_debt_lost', 'card_dispute_won') GROUP BY 1) b
			USING (owner)
		WHERE coalesce(d.owed, 0) <> coalesce(b.owed, 0)
		UNION ALL
		SELECT format('debts: lost %s, posted %s', d.lost, b.lost)
		FROM (SELECT coalesce(sum(lost), 0) AS lost FROM card_debt) d,
			(SELECT coalesce(-sum(amount), 0) AS lost FROM posting WHERE account_kind = 'e:chargeback'
				AND entry_kind IN ('card_debt_lost', 'card_dispute_won')) b
		WHERE d.lost <> b.lost`,
	}, {
		"an account is frozen while there is a cause, and for each debt",
		`SELECT count(*) FROM account_freeze WHERE lifted_at IS NULL`,
		`SELECT format('account %s is %s, with the causes %s', a.id, a.state, coalesce(f.causes, 'none'))
		FROM account a LEFT JOIN (SELECT account_id, string_agg(cause, ', ') AS causes FROM account_freeze
			WHERE lifted_at IS NULL GROUP BY 1) f ON f.account_id = a.id
		WHERE (a.state = 'frozen') <> (f.causes IS NOT NULL)
		UNION ALL
		SELECT format('account %s: debt %s, and freeze %s', coalesce(d.account_id, f.account_id), d.reversal_id, f.ref)
		FROM (SELECT * FROM card_debt WHERE due_at IS NOT NULL) d
		FULL JOIN (SELECT * FROM account_freeze WHERE cause = 'debt' AND lifted_at IS NULL) f
			ON f.account_id = d.account_id AND f.ref = d.reversal_id
		WHERE d.reversal_id IS NULL OR f.ref IS NULL`,
	}, {
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
		FROM checkout c LEFT JOIN card_payment p ON p.checkout_id = c.id
			WHERE CASE WHEN c.purpose = 'plan' THEN p.id IS NOT NULL AND c.state <> 'paid'
				ELSE (c.state = 'paid') <> (p.id IS NOT NULL) END`,
	}, {
		"what went back of card payments is taken back",
		`SELECT count(*) FROM card_reversal`,
		`SELECT format('reversal %s: went back %s, posted %s', id, r.amount, e.amount)
		FROM (SELECT id, cents * 10000000 AS amount FROM card_reversal
			UNION ALL SELECT id::text, cents * 10000000 FROM card_refund WHERE entry_id IS NOT NULL) r
		FULL JOIN (SELECT e.business_id AS id, p.amount FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'a:card_clearing'
			WHERE e.kind IN ('collateral_card_reversed', 'card_reversed')) e USING (id)
		WHERE r.amount IS DISTINCT FROM e.amount`,
	}, {
		"disputes that were won are given back",
		`SELECT count(*) FROM card_dispute_won`,
		`SELECT format('dispute %s: won %s, posted %s', id, w.amount, e.amount)
		FROM (SELECT r.id, r.cents * 10000000 AS amount
			FROM card_dispute_won w JOIN card_reversal r ON r.id = w.reversal_id
			UNION ALL SELECT id::text, cents * 10000000 FROM card_refund WHERE entry_id IS NOT NULL AND state = 'reversed') w
		FULL JOIN (SELECT e.business_id AS id, -p.amount AS amount FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'a:card_clearing'
			WHERE e.kind IN ('collateral_dispute_won', 'card_dispute_won')) e USING (id)
		WHERE w.amount IS DISTINCT FROM e.amount`,
	}, {
		"of no card payment more went back than was paid",
		`SELECT count(*) FROM card_payment`,
		`SELECT format('payment %s: paid %s, reversed %s, refunded %s cents', payment_id, cents, reversed, refunded)
		FROM card_payment_back b
		WHERE reversed > cents OR refunded > cents OR reversed + refunded > cents
			AND NOT EXISTS (SELECT FROM card_reversal r JOIN card_alarm a ON a.object = r.id AND a.reason = 'exceeds'
				WHERE r.payment_id = b.payment_id)`,
	}, {
		"refunds by card end in the books as at the card processor",
		`SELECT count(*) FROM card_refund WHERE state <> 'asked'`,
		`SELECT format('refund %s: %s, ended by %s of %s', e.business_id, f.state, e.kind, e.amount)
		FROM (SELECT e.business_id, e.kind, -p.amount AS amount, EXISTS (SELECT FROM posting WHERE entry_id = e.id
				AND account_kind = 'a:bank') AS bank FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:provider:collateral_refund_pending'
			WHERE e.kind IN ('collateral_refund_paid', 'collateral_refund_undone')) e
		LEFT JOIN card_refund f ON e.business_id IN (f.id::text, refund_key(f.id, f.attempt))
		WHERE NOT EXISTS (SELECT FROM card_refund_failure x JOIN entry y ON y.id = x.entry_id
				WHERE e.kind = 'collateral_refund_paid' AND y.business_id = e.business_id)
			AND (f.state, f.cents * 10000000) IS DISTINCT FROM (CASE WHEN e.kind = 'collateral_refund_undone' THEN 'reversed'
			WHEN e.bank THEN 'from_bank' ELSE 'by_card' END, e.amount)`,
	}, {
		"what a card did not take is owed again",
		`SELECT count(*) FROM card_refund_failure`,
		`SELECT format('attempt %s: failed %s, posted %s', key, x.amount, e.amount)
		FROM (SELECT refund_key(x.refund_id, x.attempt) AS key, f.cents * 10000000 AS amount FROM card_refund_failure x
			JOIN card_refund f ON f.id = x.refund_id WHERE x.entry_id IS NOT NULL) x
		FULL JOIN (SELECT e.business_id AS key, -p.amount AS amount FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'a:card_clearing'
			WHERE e.kind = 'collateral_refund_failed') e USING (key)
		WHERE x.amount IS DISTINCT FROM e.amount
		UNION ALL
		SELECT format('refund %s: attempt %s after %s failures', f.id, f.attempt, (SELECT count(*) FROM card_refund_failure x
			WHERE x.refund_id = f.id))
		FROM card_refund f WHERE f.attempt <> 1 + (SELECT count(*) FROM card_refund_failure x WHERE x.refund_id = f.id)`,
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
		FROM (SELECT 'paid' AS kind, session_id AS reference, cents FROM checkout
				WHERE state = 'paid' AND purpose = 'collateral'
			UNION ALL SELECT 'reversed', r.id, r.cents FROM card_reversal r
				JOIN card_payment_back b ON b.payment_id = r.payment_id AND b.purpose = 'collateral'
			UNION ALL SELECT 'dispute_won', r.id, r.cents FROM card_dispute_won w JOIN card_reversal r ON r.id = w.reversal_id
				JOIN card_payment_back b ON b.payment_id = r.payment_id AND b.purpose = 'collateral'
			UNION ALL SELECT 'refund_ended', refund_key(id, attempt), cents FROM card_refund
				WHERE state <> 'asked' AND entry_id IS NULL
			UNION ALL SELECT 'refund_failed', refund_key(x.refund_id, x.attempt), f.cents FROM card_refund_failure x
				JOIN card_refund f ON f.id = x.refund_id AND f.entry_id IS NULL) a
		FULL JOIN (SELECT kind, reference, cents FROM card_change h WHERE kind <> 'expired' AND NOT (kind = 'refund_ended'
			AND EXISTS (SELECT FROM card_change x WHERE x.kind = 'refund_failed' AND x.reference = h.reference))) h
			USING (kind, reference)
		WHERE a.cents IS DISTINCT FROM h.cents
		UNION ALL
		SELECT format('%s changes, the last is number %s', count(*), max(number)) FROM card_change
		HAVING count(*) <> max(number)`,
	},
}
