-- A payout begins as requested. The database's clock says when, and of one that was lost its adoption.
CREATE OR REPLACE FUNCTION payout_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.state <> 'requested' OR NEW.revision <> 1 OR NEW.reserved_entry IS NOT NULL THEN
        RAISE EXCEPTION 'a payout begins as requested, not %', NEW.state USING ERRCODE = 'check_violation';
    END IF;
    NEW.changed_at := clock_timestamp();
    NEW.requested_at := coalesce((SELECT a.requested_at FROM adopted_payout a WHERE a.payout_id = NEW.payout_id),
        NEW.changed_at);
    RETURN NEW;
END $$;
