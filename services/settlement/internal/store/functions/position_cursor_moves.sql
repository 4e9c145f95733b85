-- A cursor never goes back.
CREATE OR REPLACE FUNCTION position_cursor_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.number < OLD.number THEN
        RAISE EXCEPTION 'a cursor never goes back' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
