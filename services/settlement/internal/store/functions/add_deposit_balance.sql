-- add_deposit_balance changes the sums of an address and token.
CREATE OR REPLACE FUNCTION add_deposit_balance(p_index bigint, p_chain bigint, p_token text, p_arrived numeric,
    p_posted numeric, p_dust numeric, p_leaving numeric, p_swept numeric) RETURNS void
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF p_arrived = 0 AND p_posted = 0 AND p_dust = 0 AND p_leaving = 0 AND p_swept = 0 THEN
        RETURN;
    END IF;
    LOOP
        UPDATE deposit_balance SET arrived = arrived + p_arrived, posted = posted + p_posted, dust = dust + p_dust,
            leaving = leaving + p_leaving, swept = swept + p_swept
        WHERE deposit_index = p_index AND chain_id = p_chain AND token = p_token;
        EXIT WHEN FOUND;
        INSERT INTO deposit_balance (deposit_index, chain_id, token) VALUES (p_index, p_chain, p_token)
            ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION add_deposit_balance FROM PUBLIC;
