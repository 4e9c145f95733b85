CREATE OR REPLACE VIEW arrival AS
SELECT chain_id, tx_hash, place, block, block_hash, at, token, sender, deposit_index, amount, units, dust, state,
       decision, account_id, rate, quote_source, quote_at, waits, ended, entry_id, end_entry_id, return_tx, found_at,
       NULL::bytea AS contract, NULL::text AS symbol, NULL::integer AS decimals
FROM transfer
UNION ALL
SELECT chain_id, tx_hash, place, block, block_hash, at, chain_id || ':0x' || encode(contract, 'hex'), sender,
       deposit_index, amount, 0, 0, state, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN state = 'returned' THEN 'returned' END, NULL, NULL, return_tx, found_at, contract, symbol, decimals
FROM other_transfer;
COMMENT ON VIEW arrival IS 'All that arrived at deposit addresses, of tokens that are credited and of others.';

GRANT SELECT ON arrival TO svc_settlement;
