-- Nonces of a sender are given one by one. What else its row says stays.
CREATE OR REPLACE FUNCTION sender_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF (OLD.chain_id, OLD.address, OLD.key) IS DISTINCT FROM (NEW.chain_id, NEW.address, NEW.key)
        OR NEW.next <> OLD.next + 1
    THEN
        RAISE EXCEPTION 'nonces of a sender are given one by one' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
