-- strand_slices ends the open slices of accounts whose owners are dead, under the locks on the
-- wallets. Nobody knows what the owners admitted last, so all rates of the accounts count as used up,
-- as each is within a minute at the most. It returns how many slices it ended.
CREATE OR REPLACE FUNCTION strand_slices(p_accounts uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_stranded integer;
BEGIN
    UPDATE slice SET state = 'stranded', reclaim_at = now() + reclaim_after
    WHERE account_id = ANY (p_accounts) AND state = 'open';
    GET DIAGNOSTICS v_stranded = ROW_COUNT;
    INSERT INTO key_rate AS r (key_id, class, full_at)
        SELECT k.id, c.class, now() + interval '1 minute'
        FROM consumer_key k CROSS JOIN unnest('{1,2,3,5,6}'::smallint[]) AS c (class)
        WHERE k.account_id = ANY (p_accounts) AND k.state = 'active'
        ON CONFLICT (key_id, class) DO UPDATE SET full_at = later_rate(r.full_at, excluded.full_at);
    INSERT INTO account_rate AS r (account_id, class, full_at)
        SELECT id, 4, now() + interval '1 minute' FROM unnest(p_accounts) AS u (id)
        ON CONFLICT (account_id, class) DO UPDATE SET full_at = later_rate(r.full_at, excluded.full_at);
    RETURN v_stranded;
END $$;
