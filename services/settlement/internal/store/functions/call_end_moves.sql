-- The end of a call is kept as it is. Once the books have its cost, or need not, it is marked.
CREATE OR REPLACE FUNCTION call_end_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_marked call_end := OLD;
BEGIN
    v_marked.booked := true;
    IF OLD.booked OR NEW IS DISTINCT FROM v_marked OR NOT EXISTS (SELECT FROM call_gas g
        WHERE (g.chain_id, g.sender, g.nonce) = (NEW.chain_id, NEW.sender, NEW.nonce)
            AND (g.worthless OR g.entry_id IS NOT NULL))
    THEN
        RAISE EXCEPTION 'rows of call_end are kept as they are, but for the mark of what is booked'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
