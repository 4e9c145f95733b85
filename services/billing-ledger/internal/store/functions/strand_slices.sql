-- strand_slices ends the open slices of accounts whose owners are dead, under the locks on the
-- wallets. Nobody knows what the owners admitted last, so all rates of the accounts count as used up for a
-- minute from their deaths, because an owner admits nothing after its death and no rate is ahead by more
-- than a minute. It returns how many slices it ended.
CREATE OR REPLACE FUNCTION strand_slices(p_accounts uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_stranded integer;
    v_accounts uuid[]; -- whose rates are not over yet, and when they are
    v_full     timestamptz[];
BEGIN
    WITH ended AS (
        UPDATE slice SET state = 'stranded', reclaim_at = now() + reclaim_after
        WHERE account_id = ANY (p_accounts) AND state = 'open'
        RETURNING account_id, alive_until + interval '1 minute' AS full_at
    )
    SELECT count(*), array_agg(account_id) FILTER (WHERE full_at > now()), array_agg(full_at) FILTER (WHERE full_at > now())
    INTO v_stranded, v_accounts, v_full FROM ended;
    IF v_accounts IS NULL THEN
        RETURN v_stranded;
    END IF;
    INSERT INTO key_rate AS r (key_id, class, full_at)
        SELECT k.id, c.class, u.full_at
        FROM unnest(v_accounts, v_full) AS u (account_id, full_at) JOIN consumer_key k USING (account_id)
        CROSS JOIN unnest('{1,2,3,5,6}'::smallint[]) AS c (class)
        WHERE k.state = 'active'
        ON CONFLICT (key_id, class) DO UPDATE SET full_at = later_rate(r.full_at, excluded.full_at);
    INSERT INTO account_rate AS r (account_id, class, full_at)
        SELECT u.account_id, 4, u.full_at FROM unnest(v_accounts, v_full) AS u (account_id, full_at)
        ON CONFLICT (account_id, class) DO UPDATE SET full_at = later_rate(r.full_at, excluded.full_at);
    RETURN v_stranded;
END $$;
