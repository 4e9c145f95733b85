-- The parts of a penalty are fixed in the transaction that opens it, and are of its provider.
CREATE OR REPLACE FUNCTION penalty_part_begins() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
BEGIN
    IF NEW.state <> 'opened' OR NOT EXISTS (SELECT FROM penalty p WHERE p.penalty_id = NEW.penalty_id
        AND p.provider_id = NEW.provider_id AND p.state = 'proposed' AND p.revision = 1
        AND p.xmin = pg_current_xact_id()::xid)
    THEN
        RAISE EXCEPTION 'the parts of a penalty are fixed with it' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
