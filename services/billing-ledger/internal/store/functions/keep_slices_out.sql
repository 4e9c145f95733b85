-- keep_slices_out is for whoever decides about requests of accounts, or changes what is decided by, and
-- has locked their wallets. It raises SL001 when the owner of an open slice is alive, with the account
-- as the detail, and the owner and its address as the hint. Other open slices it strands. It
-- returns how many slices are stranded now: with none, no places are taken for what dead owners admitted.
CREATE OR REPLACE FUNCTION keep_slices_out(p_accounts uuid[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    s          record;
    v_dead     uuid[];
    v_stranded integer := 0;
BEGIN
    FOR s IN SELECT account_id, owner, address, state, alive_until > now() AS alive FROM slice
             WHERE account_id = ANY (p_accounts) ORDER BY account_id LOOP
        IF s.state = 'stranded' THEN
            v_stranded := v_stranded + 1;
            CONTINUE;
        ELSIF s.alive THEN
            RAISE EXCEPTION 'requests of the account % are admitted from a slice', s.account_id
                USING ERRCODE = 'SL001', DETAIL = s.account_id::text, HINT = s.owner || ' ' || s.address;
        END IF;
        v_dead := v_dead || s.account_id;
    END LOOP;
    IF v_dead IS NOT NULL THEN
        v_stranded := v_stranded + strand_slices(v_dead);
    END IF;
    RETURN v_stranded;
END $$;
