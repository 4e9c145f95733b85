-- A position moves with what counts of it, and never back: with its events in the order of their chain, or restated.
-- What the books must be told is the difference that it makes.
CREATE OR REPLACE FUNCTION position_moves() RETURNS trigger
LANGUAGE plpgsql SET search_path = settlement, pg_temp AS $$
DECLARE
    v_booked bigint := 0;
    v_last record;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.number <= OLD.number OR (NEW.chain_id, NEW.subject, NEW.depositor, NEW.provider_id)
            IS DISTINCT FROM (OLD.chain_id, OLD.subject, OLD.depositor, OLD.provider_id)
        THEN
            RAISE EXCEPTION 'a position moves with its next event' USING ERRCODE = 'check_violation';
        END IF;
        v_booked := OLD.booked;
    ELSIF EXISTS (SELECT FROM position WHERE chain_id = NEW.chain_id AND subject = NEW.subject
        AND depositor = NEW.depositor)
    THEN
        RETURN NEW; -- it becomes an update, which is looked at
    END IF;
    SELECT units, kind INTO v_last FROM position_event WHERE chain_id = NEW.chain_id AND number = NEW.number;
    IF NEW.provider_id IS NOT NULL AND v_last.units IS DISTINCT FROM NEW.booked - v_booked THEN
        RAISE EXCEPTION 'the books have of a position what its events told them' USING ERRCODE = 'check_violation';
    ELSIF TG_OP = 'UPDATE' AND v_last.kind IS DISTINCT FROM 'restated'
        AND (NEW.block, NEW.log_index) < (OLD.block, OLD.log_index)
    THEN
        RAISE EXCEPTION 'events of a position count in the order of their chain' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
