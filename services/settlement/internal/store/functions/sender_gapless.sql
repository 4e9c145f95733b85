-- At the end of a transaction the last nonce that a sender gave has its call, and no call is beyond.
CREATE OR REPLACE FUNCTION sender_gapless() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_next bigint;
    v_last bigint;
BEGIN
    SELECT s.next INTO v_next FROM sender s WHERE s.chain_id = NEW.chain_id AND s.address = NEW.address;
    SELECT max(c.nonce) INTO v_last FROM chain_call c WHERE c.chain_id = NEW.chain_id AND c.sender = NEW.address;
    IF v_next <> coalesce(v_last + 1, 0) THEN
        RAISE EXCEPTION 'each nonce of a sender has its call' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
