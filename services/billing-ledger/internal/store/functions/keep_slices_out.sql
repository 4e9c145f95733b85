-- keep_slices_out is for whoever decides about requests of accounts, or changes what is decided by, and
-- has locked their wallets. It raises SL001 when the owner of an open slice is alive, with the account
-- as the detail, and the owner and its address as the hint. Other open slices it strands. It
-- returns how many.
CREATE OR REPLACE FUNCTION keep_slices_out(p_accounts uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    s      record;
    v_dead uuid[];
BEGIN
    FOR s IN SELECT account_id, owner, address, alive_until > now() AS alive FROM slice
             WHERE account_id = ANY (p_accounts) AND state = 'open' ORDER BY account_id LOOP
        IF s.alive THEN
            RAISE EXCEPTION 'requests of the account % are admitted from a slice', s.account_id
                USING ERRCODE = 'SL001', DETAIL = s.account_id::text, HINT = s.owner || ' ' || s.address;
        END IF;
        v_dead := v_dead || s.account_id;
    END LOOP;
    IF v_dead IS NULL THEN
        RETURN 0;
    END IF;
    RETURN strand_slices(v_dead);
END $$;
