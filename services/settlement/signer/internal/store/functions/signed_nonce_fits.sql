-- A nonce is at most 16 above the highest of its sender, and a nonce that was cancelled
-- before it had a content gets none.
CREATE OR REPLACE FUNCTION signed_nonce_fits() RETURNS trigger
LANGUAGE plpgsql SET search_path = signer, pg_temp AS $$
DECLARE
    v_highest   bigint;
    v_key       text;
    v_content   boolean;
    v_cancelled boolean;
BEGIN
    PERFORM lock_key(NEW.chain_id, NEW.key);
    SELECT nonce, key INTO v_highest, v_key FROM signed_nonce
        WHERE chain_id = NEW.chain_id AND sender = NEW.sender ORDER BY nonce DESC LIMIT 1;
    SELECT coalesce(bool_or(NOT cancel), false), coalesce(bool_or(cancel), false) INTO v_content, v_cancelled
        FROM signed_nonce WHERE chain_id = NEW.chain_id AND sender = NEW.sender AND nonce = NEW.nonce;
    IF v_highest IS NOT NULL AND NEW.nonce > v_highest + 16 THEN
        RAISE EXCEPTION 'nonce % leaves a gap above %', NEW.nonce, v_highest
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signed_nonce_gap';
    ELSIF NOT NEW.cancel AND v_cancelled AND NOT v_content THEN
        RAISE EXCEPTION 'nonce % was cancelled before it had a content', NEW.nonce
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signed_nonce_cancelled';
    ELSIF v_key <> NEW.key THEN
        RAISE EXCEPTION 'one sender has one key' USING ERRCODE = 'check_violation', CONSTRAINT = 'signed_nonce_key';
    END IF;
    RETURN NEW;
END $$;
