-- Two readings in a row, each at a later place than the one before, confirm a shortfall or its end.
CREATE OR REPLACE FUNCTION reserve_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    was_short boolean;
    is_short  boolean := NEW.held < NEW.owed;
BEGIN
    NEW.read_at := clock_timestamp();
    IF TG_OP = 'INSERT' THEN
        IF NEW.in_row <> 1 OR NEW.confirmed THEN
            RAISE EXCEPTION 'one reading of % confirms nothing', NEW.subject
                USING ERRCODE = 'check_violation', CONSTRAINT = 'reserve_in_row', TABLE = 'reserve';
        END IF;
        RETURN NEW;
    END IF;
    was_short := OLD.held < OLD.owed;
    IF (NEW.subject, NEW.chain_id) IS DISTINCT FROM (OLD.subject, OLD.chain_id) OR NEW.read_place < OLD.read_place
        OR NEW.in_row <> (CASE WHEN is_short <> was_short THEN 1
            WHEN NEW.read_place > OLD.read_place THEN OLD.in_row + 1 ELSE OLD.in_row END)
        OR NEW.in_row < 2 AND NEW.confirmed <> OLD.confirmed
    THEN
        RAISE EXCEPTION 'the reading of % does not follow the one before', NEW.subject
            USING ERRCODE = 'check_violation', CONSTRAINT = 'reserve_in_row', TABLE = 'reserve';
    END IF;
    IF NEW.confirmed <> OLD.confirmed THEN
        NEW.since := clock_timestamp();
    END IF;
    RETURN NEW;
END $$;
