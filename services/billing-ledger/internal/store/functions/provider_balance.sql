-- What a provider has in USD on an account and in a book: the last snapshot and
-- what was recorded since. It sees what the statement sees that calls it.
CREATE OR REPLACE FUNCTION provider_balance(p_kind text, p_provider uuid, p_book text) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    SELECT coalesce((SELECT balance FROM balance_snapshot
            WHERE account_kind = p_kind AND owner_id = p_provider AND book = p_book AND asset = 'usd' ORDER BY day DESC LIMIT 1), 0)
        + coalesce((SELECT sum(amount) FROM ledger_leg
            WHERE account_kind = p_kind AND owner_id = p_provider AND book = p_book AND asset = 'usd'
                AND at >= coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity')), 0)::bigint
$$;
