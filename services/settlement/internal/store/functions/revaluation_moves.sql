-- What was posted of a day stays. A process that saw no change may be overruled by another's entry of the same day.
CREATE OR REPLACE FUNCTION revaluation_moves() RETURNS trigger LANGUAGE plpgsql
    SET search_path = settlement, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.entry_id IS NOT NULL OR NEW.entry_id IS NULL THEN
        RAISE EXCEPTION 'the revaluation of % on % stands', OLD.token, OLD.day
            USING ERRCODE = 'check_violation', CONSTRAINT = 'revaluation_moves';
    END IF;
    RETURN NEW;
END $$;
