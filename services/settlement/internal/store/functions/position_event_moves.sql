-- An event is what it is. The books take what it moved once.
CREATE OR REPLACE FUNCTION position_event_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_was record;
BEGIN
    v_was := OLD;
    v_was.entry_id := NEW.entry_id;
    IF OLD.entry_id IS NOT NULL OR v_was IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'an event changes once, when the books have it' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
