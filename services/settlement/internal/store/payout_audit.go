package store

// payoutChecks are the invariants of payouts and of what is sent.
func payoutChecks() []check {
	const calls = `SELECT count(*) FROM chain_call`
	const payouts = `SELECT count(*) FROM payout`
	return []check{
		bySQL("nonces of senders have no gap", `SELECT count(*) FROM sender`, `
			SELECT format('sender %s of chain %s: next is %s, and %s calls end at %s', encode(s.address, 'hex'), s.chain_id,
				s.next, count(c.nonce), max(c.nonce))
			FROM sender s LEFT JOIN chain_call c ON c.chain_id = s.chain_id AND c.sender = s.address
			GROUP BY s.chain_id, s.address, s.next
			HAVING s.next <> count(c.nonce) OR s.next <> coalesce(max(c.nonce) + 1, 0)`),
		bySQL("a nonce has one content", calls, `
			SELECT format('nonce %s of %s on chain %s: %s', t.nonce, encode(t.sender, 'hex'), t.chain_id, encode(t.hash, 'hex'))
			FROM signed_tx t JOIN chain_call c USING (chain_id, sender, nonce)
			WHERE t.call_hash IS NOT NULL AND t.call_hash <> c.call_hash`),
		bySQL("transactions end in the order of nonces", `SELECT count(*) FROM call_end`, `
			SELECT format('nonce %s of %s on chain %s has no end, and a later one has', c.nonce, encode(c.sender, 'hex'),
				c.chain_id)
			FROM chain_call c LEFT JOIN call_end e USING (chain_id, sender, nonce)
			WHERE e.nonce IS NULL AND c.created_at < clock_timestamp() - interval '1 hour' AND EXISTS (
				SELECT FROM call_end l WHERE l.chain_id = c.chain_id AND l.sender = c.sender AND l.nonce > c.nonce
					AND l.ended_at < clock_timestamp() - interval '1 hour')`),
		bySQL("calls are marked once they have ended", calls, `
			SELECT format('nonce %s of %s on chain %s: ended %s', c.nonce, encode(c.sender, 'hex'), c.chain_id, c.ended)
			FROM chain_call c LEFT JOIN call_end e USING (chain_id, sender, nonce) WHERE c.ended <> (e.nonce IS NOT NULL)`),
		bySQL("costs are marked once the books have them", `SELECT count(*) FROM call_end`, `
			SELECT format('nonce %s of %s on chain %s: booked %s', e.nonce, encode(e.sender, 'hex'), e.chain_id, e.booked)
			FROM call_end e LEFT JOIN call_gas g USING (chain_id, sender, nonce)
			WHERE e.booked <> coalesce(g.worthless OR g.entry_id IS NOT NULL, false)
			UNION ALL SELECT format('chain %s: %s wei are not booked, and the calls say %s', chain_id, u.wei, s.wei)
			FROM chain_unbooked u FULL JOIN (SELECT e.chain_id, sum(e.cost
				- CASE WHEN g.entry_id IS NULL THEN 0 ELSE g.units::numeric * 1000000000 END) AS wei
				FROM call_end e LEFT JOIN call_gas g USING (chain_id, sender, nonce) GROUP BY e.chain_id) AS s USING (chain_id)
			WHERE u.wei IS DISTINCT FROM s.wei`),
		bySQL("payouts fit their transactions", payouts, `
			SELECT format('payout %s is %s, its transaction is %s', p.payout_id, p.state, coalesce(e.outcome, 'open'))
			FROM payout p LEFT JOIN chain_call c ON c.purpose = 'payout' AND c.ref = p.payout_id::text
			LEFT JOIN call_end e ON e.chain_id = c.chain_id AND e.sender = c.sender AND e.nonce = c.nonce
			WHERE CASE p.state
				WHEN 'confirmed' THEN e.outcome IS DISTINCT FROM 'succeeded'
				WHEN 'failed' THEN c.nonce IS NOT NULL AND coalesce(e.outcome, '') NOT IN ('reverted', 'cancelled')
				WHEN 'signing' THEN c.nonce IS NULL
				WHEN 'submitted' THEN c.nonce IS NULL
				ELSE c.nonce IS NOT NULL END`),
		bySQL("payouts fit their entries", payouts, `
			SELECT format('payout %s is %s', p.payout_id, p.state) FROM payout p WHERE CASE
				WHEN p.state = 'requested' THEN p.final_entry IS NOT NULL
				WHEN p.state IN ('confirmed', 'cancelled') THEN num_nulls(p.reserved_entry, p.final_entry) > 0
				WHEN p.state = 'failed' THEN num_nulls(p.reserved_entry, p.final_entry) = 1
				ELSE p.reserved_entry IS NULL OR p.final_entry IS NOT NULL END`),
		bySQL("no payout is open beside a refund", payouts, `
			SELECT format('provider %s has a payout and a refund', p.provider_id)
			FROM payout p JOIN collateral_refund r USING (provider_id)
			WHERE p.state IN ('requested', 'approved', 'signing', 'submitted') AND r.state IN ('asked', 'paying')`),
		bySQL("what was approved without a person is counted", `SELECT count(*) FROM payout_day`, `
			SELECT format('%s: %s nano-USD are counted, and %s were approved', day, coalesce(d.nano_usd, 0), coalesce(a.sum, 0))
			FROM payout_day d FULL JOIN (
				SELECT (c.changed_at AT TIME ZONE 'UTC')::date AS day, sum(p.gross_nano_usd)
				FROM payout_change c JOIN payout p USING (payout_id)
				WHERE c.cause = 'approve' AND c.actor = 'platform' AND p.state NOT IN ('failed', 'cancelled') GROUP BY 1
			) AS a USING (day) WHERE coalesce(d.nano_usd, 0) <> coalesce(a.sum, 0)`),
	}
}
