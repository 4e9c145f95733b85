package store

// depositChecks are the invariants of chains and deposits that verify recomputes.
func depositChecks() []check {
	return []check{
		bySQL("a deposit is credited where it is posted, and only there",
			`SELECT count(*) FROM transfer`,
			`SELECT 'transfer ' || encode(tx_hash, 'hex') || '/' || place || ' of chain ' || chain_id || ' is ' || state
			FROM transfer WHERE (state IN ('credited', 'unmatched', 'denied', 'returned')) <> (entry_id IS NOT NULL)
				AND NOT (state = 'dropped' AND ended = 'gone' AND end_entry_id IS NOT NULL)
				OR (state = 'credited' AND ended IS NULL) <> (decision = 'credit' AND entry_id IS NOT NULL AND ended IS NULL)`),
		bySQL("what is credited was read in a final block",
			`SELECT count(*) FROM transfer WHERE entry_id IS NOT NULL`,
			`SELECT 'transfer ' || encode(t.tx_hash, 'hex') || '/' || t.place || ' of chain ' || t.chain_id || ' is in block '
				|| t.block || ' above the cursor' FROM transfer t LEFT JOIN chain_cursor c USING (chain_id)
			WHERE t.entry_id IS NOT NULL AND t.state <> 'dropped' AND t.block > coalesce(c.block, -1)
				AND NOT EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = t.chain_id AND h.lifted_at IS NOT NULL)`),
		bySQL("deposit addresses have no gap but behind an adoption",
			`SELECT count(*) FROM deposit_address`,
			`SELECT 'the last of ' || count(*) || ' deposit addresses is ' || max(deposit_index) FROM deposit_address
			HAVING max(deposit_index) + 1 <> count(*) AND (max(deposit_index) + 1 - count(*) > `+lostIndices+`
				* (SELECT count(*) FROM adoption) OR (max(deposit_index) + 1 - count(*)) % `+lostIndices+` <> 0)`),
		bySQL("balances of deposit addresses are the sums of what came and went",
			`SELECT count(*) FROM deposit_balance`,
			`WITH sums AS (SELECT deposit_index, chain_id, token, sum(arrived) AS arrived, sum(posted) AS posted,
				sum(dust) AS dust, sum(leaving) AS leaving, sum(swept) AS swept FROM (
				SELECT deposit_index, chain_id, token, amount AS arrived, CASE state WHEN 'final' THEN 0 ELSE amount END AS posted,
					0 AS dust, 0 AS leaving, 0 AS swept FROM transfer WHERE state NOT IN ('seen', 'dropped')
				UNION ALL SELECT deposit_index, chain_id, token, 0, 0, amount, 0, 0 FROM deposit_dust
				UNION ALL SELECT deposit_index, chain_id, token, 0, 0, 0, CASE state WHEN 'done' THEN 0 ELSE amount END,
					CASE state WHEN 'done' THEN amount ELSE 0 END FROM sweep WHERE state <> 'failed'
				) AS rows GROUP BY deposit_index, chain_id, token)
			SELECT format('address %s has %s of %s, and its rows say %s', deposit_index, coalesce(b.text, 'nothing'), token,
				coalesce(s.text, 'nothing'))
			FROM (SELECT deposit_index, chain_id, token, concat_ws('/', arrived, posted, dust, leaving, swept) AS text
				FROM deposit_balance WHERE arrived + posted + dust + leaving + swept > 0) AS b
			FULL JOIN (SELECT deposit_index, chain_id, token, concat_ws('/', arrived, posted, dust, leaving, swept) AS text
				FROM sums) AS s USING (deposit_index, chain_id, token) WHERE b.text IS DISTINCT FROM s.text`),
		bySQL("no more is swept than arrived",
			`SELECT count(*) FROM sweep`,
			`SELECT 'address ' || deposit_index || ' of chain ' || chain_id || ' has ' || sum(amount) || ' of ' || token FROM (
				SELECT chain_id, deposit_index, token, amount FROM transfer WHERE state NOT IN ('seen', 'dropped')
				UNION ALL SELECT chain_id, deposit_index, token, amount FROM deposit_dust
				UNION ALL SELECT chain_id, deposit_index, token, -amount FROM sweep WHERE state <> 'failed'
			) held GROUP BY chain_id, deposit_index, token HAVING sum(amount) < 0`),
	}
}
