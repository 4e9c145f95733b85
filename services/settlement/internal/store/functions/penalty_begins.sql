-- A penalty begins as proposed. The database's clock says since when, and until when the
-- provider may appeal.
CREATE OR REPLACE FUNCTION penalty_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.state <> 'proposed' OR NEW.revision <> 1 THEN
        RAISE EXCEPTION 'a penalty begins as proposed, not %', NEW.state USING ERRCODE = 'check_violation';
    END IF;
    NEW.opened_at := clock_timestamp();
    NEW.appeal_until := NEW.opened_at + interval '48 hours';
    RETURN NEW;
END $$;
