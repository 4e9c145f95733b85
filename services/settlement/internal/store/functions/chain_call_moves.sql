-- A call is kept as it is. Once it has its end it is marked.
CREATE OR REPLACE FUNCTION chain_call_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_marked chain_call := OLD;
BEGIN
    v_marked.ended := true;
    IF OLD.ended OR NEW IS DISTINCT FROM v_marked OR NOT EXISTS (SELECT FROM call_end e
        WHERE (e.chain_id, e.sender, e.nonce) = (NEW.chain_id, NEW.sender, NEW.nonce))
    THEN
        RAISE EXCEPTION 'rows of chain_call are kept as they are, but for the mark of an end'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
