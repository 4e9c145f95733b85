-- What an owner has in USD on an account and in a book: the last snapshot and what was
-- recorded since. It sees what the statement sees that calls it. Settled requests move
-- two kinds of providers' accounts and what vendors are owed, and are not read for the others.
CREATE OR REPLACE FUNCTION provider_balance(p_kind text, p_provider uuid, p_book text) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = billing, pg_temp AS $$
    WITH open AS (
        SELECT coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS since
    )
    SELECT coalesce((SELECT balance FROM balance_snapshot
            WHERE account_kind = p_kind AND owner_id = p_provider AND book = p_book AND asset = 'usd' ORDER BY day DESC LIMIT 1), 0)
        + coalesce((SELECT sum(p.amount) FROM posting p JOIN entry e ON e.id = p.entry_id
            WHERE p.account_kind = p_kind AND p.owner_id = p_provider AND p.book = p_book AND p.asset = 'usd'
                AND e.at >= (SELECT since FROM open)), 0)::bigint
        + CASE WHEN p_kind IN ('l:provider:accrued', 'l:provider:plan_held', 'l:vendor:payable') THEN
            coalesce((SELECT sum(amount) FROM usage_leg
                WHERE account_kind = p_kind AND owner_id = p_provider AND book = p_book
                    AND at >= (SELECT since FROM open)), 0)::bigint
          ELSE 0 END
$$;
