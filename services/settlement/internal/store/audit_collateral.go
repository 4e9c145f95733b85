package store

// partsVanished selects of the parts of penalties whose last event is gone, and was not mined again.
func partsVanished(what string) string {
	return `SELECT ` + what + ` FROM (SELECT DISTINCT part_id FROM position_event WHERE gone AND part_id IS NOT NULL) g
		JOIN penalty_part p USING (part_id) WHERE p.state NOT IN ('opened', 'missed') AND NOT EXISTS (
			SELECT FROM position_event e WHERE e.part_id = p.part_id AND NOT e.gone AND e.kind = CASE p.state
				WHEN 'escrowed' THEN 'slash_proposed' ELSE 'slash_' || p.state END)`
}

// collateralChecks are the invariants of collateral.
func collateralChecks() []check {
	return []check{
		bySQL("positions are their events",
			`SELECT count(*) FROM position`,
			`WITH moved AS (
				SELECT chain_id, subject, depositor, sum(CASE WHEN gone THEN 0 WHEN kind = 'deposited' THEN amount
					WHEN kind IN ('refunded', 'slash_executed') THEN -amount ELSE 0 END) AS amount, sum(units) AS units
				FROM position_event GROUP BY chain_id, subject, depositor
			)
			SELECT format('chain %s, %s, %s: %s and %s units, by events %s and %s', p.chain_id, encode(p.subject, 'hex'),
				encode(p.depositor, 'hex'), p.free + p.escrow, p.booked, m.amount, m.units)
			FROM position p JOIN moved m USING (chain_id, subject, depositor)
			WHERE p.free + p.escrow <> m.amount OR p.booked <> m.units`),
		bySQL("escrow is what penalties have set aside",
			`SELECT count(*) FROM position WHERE escrow > 0`,
			`WITH moved AS (
				SELECT chain_id, subject, depositor, sum(CASE kind WHEN 'slash_proposed' THEN amount WHEN 'slash_executed'
					THEN -amount WHEN 'slash_reversed' THEN -amount WHEN 'slash_lapsed' THEN -amount ELSE 0 END) AS amount
				FROM position_event WHERE NOT gone GROUP BY chain_id, subject, depositor
			)
			SELECT format('chain %s, %s: %s, by penalties %s', p.chain_id, encode(p.depositor, 'hex'), p.escrow, m.amount)
			FROM position p JOIN moved m USING (chain_id, subject, depositor) WHERE p.escrow <> m.amount`),
		bySQL("events count once, and those of the watcher alone",
			`SELECT count(*) FROM position_event WHERE event IS NOT NULL`,
			`SELECT format('chain %s, event %s: no such event was stored', p.chain_id, p.event) FROM position_event p
			WHERE p.event IS NOT NULL AND NOT EXISTS (SELECT FROM chain_event c WHERE c.chain_id = p.chain_id
				AND c.seq = p.event AND c.tx_hash = p.tx AND c.place = p.place)`),
		bySQL("events that count are on their chain",
			`SELECT count(*) FROM position_event WHERE NOT gone`,
			`SELECT format('chain %s, event %s of transaction %s: the chain has it no longer', p.chain_id, p.event,
				encode(p.tx, 'hex'))
			FROM position_event p JOIN chain_event c ON (c.chain_id, c.seq) = (p.chain_id, p.event)
			WHERE c.gone_at IS NOT NULL AND NOT p.gone`),
		bySQL("parts of penalties are what their chain says",
			`SELECT count(*) FROM penalty_part WHERE chain_id IS NOT NULL AND state NOT IN ('opened', 'missed')`,
			partsVanished("format('chain %s, part %s: it is %s, and the event that says so is gone', p.chain_id, "+
				"encode(p.part_id, 'hex'), p.state)")),
		bySQL("nobody is slashed before its penalty is executed",
			`SELECT count(*) FROM penalty_part WHERE state = 'executed'`,
			`SELECT format('penalty %s is %s, and a part of it is executed', penalty_id, x.state)
			FROM penalty_part p JOIN penalty x USING (penalty_id)
			WHERE p.state = 'executed' AND x.state <> 'executed'`),
		bySQL("no refund is open beside a payout",
			`SELECT count(*) FROM collateral_refund WHERE state IN ('asked', 'paying')`,
			`SELECT format('provider %s: refund %s, payout %s', r.provider_id, r.refund_id, p.payout_id)
			FROM collateral_refund r JOIN payout p USING (provider_id) WHERE r.state IN ('asked', 'paying')
				AND p.state IN ('requested', 'approved', 'signing', 'submitted')`),
		bySQL("a refund suspends its provider",
			`SELECT count(*) FROM collateral_refund WHERE state IN ('asked', 'paying')`,
			`SELECT format('provider %s: refund %s and no suspension', r.provider_id, r.refund_id) FROM collateral_refund r
			WHERE r.state IN ('asked', 'paying') AND NOT EXISTS (SELECT FROM provider_suspension s
				WHERE s.provider_id = r.provider_id AND s.cause = 'refund' AND s.holds)`),
	}
}
