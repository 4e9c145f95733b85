-- The fees of a nonce that was recorded only rise, and each row has the difference.
CREATE OR REPLACE FUNCTION signed_fee_follows() RETURNS trigger
LANGUAGE plpgsql SET search_path = signer, pg_temp AS $$
DECLARE
    v_before numeric;
BEGIN
    PERFORM lock_key(NEW.chain_id, NEW.key);
    IF NOT EXISTS (SELECT FROM signed_nonce n WHERE n.chain_id = NEW.chain_id AND n.sender = NEW.sender
                   AND n.nonce = NEW.nonce AND n.key = NEW.key) THEN
        RAISE EXCEPTION 'nonce % is not recorded', NEW.nonce
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signed_fee_nonce';
    END IF;
    SELECT coalesce(max(ceiling), 0) INTO v_before FROM signed_fee f
        WHERE f.chain_id = NEW.chain_id AND f.sender = NEW.sender AND f.nonce = NEW.nonce;
    IF NEW.increase <> NEW.ceiling - v_before THEN
        RAISE EXCEPTION 'the fees of nonce % do not rise from % to % by %', NEW.nonce, v_before, NEW.ceiling, NEW.increase
            USING ERRCODE = 'check_violation', CONSTRAINT = 'signed_fee_increase';
    END IF;
    RETURN NEW;
END $$;
