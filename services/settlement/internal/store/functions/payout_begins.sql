-- A payout begins as requested. The database's clock says when.
CREATE OR REPLACE FUNCTION payout_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.state <> 'requested' OR NEW.revision <> 1 OR NEW.reserved_entry IS NOT NULL THEN
        RAISE EXCEPTION 'a payout begins as requested, not %', NEW.state USING ERRCODE = 'check_violation';
    END IF;
    NEW.requested_at := clock_timestamp();
    NEW.changed_at := NEW.requested_at;
    RETURN NEW;
END $$;
